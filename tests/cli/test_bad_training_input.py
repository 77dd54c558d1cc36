"""Invalid input to `glassformer train`: every mistake gets one sentence, and nothing is written."""

import gzip
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.cli import main
from tests.training.runs import options, train_silently, write_corpus


def corpus(here: Path) -> list[str]:
    write_corpus(here, 30)
    return ["--source", "train.source", "--target", "train.target", "--out", "run"]


def with_file(name: str, contents: bytes, *more: str) -> Callable[[Path], list[str]]:
    """A valid corpus with one file replaced or added."""

    def prepare(here: Path) -> list[str]:
        arguments = corpus(here)
        (here / name).write_bytes(contents)
        return [*arguments, *more]

    return prepare


def asking(*more: str) -> Callable[[Path], list[str]]:
    return lambda here: [*corpus(here), *more]


def toml(text: str) -> Callable[[Path], list[str]]:
    def prepare(here: Path) -> list[str]:
        corpus(here)
        (here / "run.toml").write_text(text)
        return ["run.toml"]

    return prepare


def one_file(name: str, contents: bytes) -> Callable[[Path], list[str]]:
    def prepare(here: Path) -> list[str]:
        (here / name).write_bytes(contents)
        return ["--source", name, "--out", "run"]

    return prepare


def occupied(here: Path) -> list[str]:
    arguments = corpus(here)
    (here / "other").mkdir()
    (here / "other" / "thesis.tex").write_text("years of work")
    return [*arguments[:-1], "other"]


def a_file_in_the_way(here: Path) -> list[str]:
    arguments = corpus(here)
    (here / "taken").write_text("")
    return [*arguments[:-1], "taken"]


def model_without_tokenizer(here: Path) -> list[str]:
    from glassformer.model import Transformer, preset, save_model

    save_model(Transformer(preset("tiny", vocab_size=50, d_model=8, n_heads=1, d_ff=8)), here / "model")
    return [*corpus(here), "--finetune", "model"]


def damaged_model(here: Path) -> list[str]:
    arguments = model_without_tokenizer(here)
    path = here / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    return arguments


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run of a small model."""
    here = tmp_path_factory.mktemp("finished")
    train_silently(options(here, updates=2, warmup=1))
    return here / "run"


def another_vocabulary(here: Path) -> list[str]:
    return [*corpus(here), "--finetune", "finished", "--set", "tokenizer.vocab_size=500"]


def shape_and_start(here: Path) -> list[str]:
    return [*corpus(here), "--finetune", "finished", "--preset", "small"]


WRONG = {
    "no source": (lambda here: ["--out", "run"], "--source is missing: give the file with the source sentences"),
    "no out": (lambda here: corpus(here)[:-2], "--out is missing: give the directory for the run"),
    "absent file": (asking("--source", "nowhere.en"), "nowhere.en cannot be read: No such file"),
    "a directory": (asking("--source", "."), "cannot be read: Is a directory"),
    "unequal lines": (with_file("train.target", b"eins\nzwei\n"), "30 lines and train.target has 2"),
    "empty file": (with_file("train.target", b""), "train.target is empty"),
    "only blank lines": (with_file("train.target", b"\n" * 30), "too few pairs have text on both sides"),
    "not UTF-8": (with_file("train.target", b"gut\n" * 3 + b"\xe4h\n" + b"gut\n" * 26), "line 4: byte 1 (0xe4)"),
    "UTF-16": (with_file("train.target", ("gut\n" * 30).encode("utf-16")), "lines|UTF-16"),
    "not gzip": (with_file("t.gz", b"plain text", "--target", "t.gz"), "t.gz is damaged or truncated"),
    "cut gzip": (
        with_file("t.gz", gzip.compress(b"gut\n" * 30, mtime=0)[:-9], "--target", "t.gz"),
        "t.gz is damaged or truncated",
    ),
    "endless line": (with_file("train.target", b"a" * (2**20 + 2) + b"\n" * 30), "longer than 1,048,576 bytes"),
    "one unnamed file": (one_file("pairs.txt", b"a\tb\n"), "neither in .tsv, .csv nor .jsonl"),
    "TSV without tab": (
        one_file("pairs.tsv", b"a\tb\na b\n"),
        "line 2: expected one tab between source and target, found 0",
    ),
    "broken JSON": (one_file("pairs.jsonl", b'{"source": "a", "target": "b"}\n{"source"\n'), "line 2: not valid JSON"),
    "JSON without target": (one_file("pairs.jsonl", b'{"source": "a"}\n'), 'line 1: expected {"source": "'),
    "dev target alone": (asking("--dev-target", "train.target"), "data.dev_source is not: give both"),
    "dev absent": (asking("--dev-source", "no.en", "--dev-target", "no.de"), "no.en cannot be read"),
    "test unequal": (
        with_file("t.de", b"x\n", "--test-source", "train.source", "--test-target", "t.de"),
        "30 lines and t.de has 1",
    ),
    "unknown preset": (asking("--preset", "huge"), "There is no preset 'huge'; the presets are paper-base"),
    "unknown option": (asking("--set", "training.updats=5"), "did you mean 'training.updates'?"),
    "unknown section": (asking("--set", "trainning.updates=5"), "did you mean 'training'?"),
    "unknown model option": (asking("--set", "model.heads=5"), "There is no option 'heads'"),
    "a word for a number": (asking("--set", "training.updates=many"), "training.updates = 'many' should be"),
    "out of range": (asking("--set", "training.label_smoothing=1.5"), "should be less than 1"),
    "negative": (asking("--set", "training.learning_rate=-1"), "should be greater than 0"),
    "one beta": (
        asking("--set", "training.betas=[0.9]"),
        "training.betas = [0.9] should have at least 2 items, not 1.",
    ),
    "a number for a section": (asking("--set", "tokenizer=3"), "tokenizer = 3 should contain named options."),
    "uneven heads": (asking("--set", "model.n_heads=5"), "cannot be split evenly into n_heads = 5"),
    "updates and epochs": (asking("--set", "training.updates=5", "--set", "training.epochs=2"), "use only one of them"),
    "too many micro-batches": (
        asking("--set", "training.micro_batches=999"),
        "leaves fewer than 16 tokens per micro-batch",
    ),
    "vocabulary by the model": (asking("--set", "model.vocab_size=99"), "set tokenizer.vocab_size instead"),
    "no equals sign": (
        asking("--set", "training.updates"),
        "should be SECTION.OPTION=VALUE, as in --set training.updates=1000",
    ),
    "set into no section": (
        asking("--set", "out.here=1"),
        "'out.here' cannot be set: 'out' is a single value, not a section",
    ),
    "not a TOML file": (lambda here: [*corpus(here), "train.source"], "should be a .toml file"),
    "broken TOML": (toml("out = \n"), "run.toml is not readable as TOML"),
    "absent TOML": (lambda here: ["no.toml"], "no.toml cannot be read"),
    "metric unknown": (asking("--set", "validation.metric=comet"), "should be 'bleu', 'chrf' or 'loss'"),
    "occupied directory": (occupied, "other contains other files (thesis.tex) and no run.toml"),
    "a file in the way": (a_file_in_the_way, "taken is not a directory"),
    "start from nothing": (asking("--finetune", "nothing"), "There is no file or directory nothing"),
    "start from ids only": (model_without_tokenizer, "has no tokenizer: it takes token ids, not text"),
    "start from damage": (damaged_model, "model"),
    "start with another vocabulary": (another_vocabulary, "vocab_size 500 instead of 400"),
    "start with another shape": (
        shape_and_start,
        "Fine-tuning keeps the layers and sizes of finished: leave out model.preset (--preset)",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_one_sentence_and_nothing_is_written(kind, tmp_path, monkeypatch, capsys, finished):
    prepare, expected = WRONG[kind]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path / "finished")
    arguments = prepare(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["glassformer", "train", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    output = capsys.readouterr()
    assert leaving.value.code == 1
    assert output.out == ""
    assert output.err.startswith("glassformer: ")
    assert output.err.count("\n") == 1, output.err
    assert any(part in output.err for part in expected.split("|")), output.err
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_vocabulary_too_small_for_the_text_is_said_before_the_run_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["glassformer", "train", *corpus(tmp_path), "--set", "tokenizer.vocab_size=20"])
    with pytest.raises(SystemExit):
        main()
    assert "A vocabulary of 20 tokens is too small" in capsys.readouterr().err
    assert not (tmp_path / "run/run.toml").exists()


def test_there_are_at_least_thirty():
    assert len(WRONG) >= 30
