"""What a run does with what it is given, and what it leaves behind."""

import json
import re
from pathlib import Path

import pytest
import torch

from glassformer.atomic_directory import verify
from glassformer.builtin import street
from glassformer.data import corpus
from glassformer.data.dev_split import DevSplit
from glassformer.errors import DirectoryError, GlassformerError
from glassformer.model import load_model, n_parameters, preset
from glassformer.model.directory import read_weights
from glassformer.model_location import find_model
from glassformer.training import RunSettings, train
from glassformer.training import run_resources as machine
from glassformer.training.default_choices import SIZES, choose_model, choose_tokenizer
from glassformer.training.run_settings import DataSettings
from glassformer.training.weight_averaging import MovingAverage, mean, using_weights
from glassformer.translator import Translator
from tests.training.runs import Listener, options, trained, write_corpus


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict]:
    here = tmp_path_factory.mktemp("finished")
    asked = options(here)
    asked["data"] |= write_corpus(here / "text", 12, "test")
    return here / "run", trained(asked)


def test_it_leaves_a_model_a_score_and_a_report(finished):
    run, report = finished
    assert report == json.loads((run / "report.json").read_text())
    assert report["scored_on"] == "test"
    assert set(report["scores"]) == {"dev", "test"}
    assert report["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert len(report["translations"]) == 12
    assert len((run / "test.translations.txt").read_text().splitlines()) == 12
    verify(run / report["model"])
    assert report["parameters"] == load_model(run / report["model"]).n_parameters
    assert report["updates"] == 24


def test_the_best_model_translates_what_the_report_says(finished):
    run, report = finished
    translator = Translator.load(run)
    translator.search = translator.search.model_copy(update={"size": 2})
    sources = [sample["source"] for sample in report["translations"]]
    assert translator.translate(sources) == [sample["translation"] for sample in report["translations"]]


def test_run_toml_is_what_was_used(finished):
    settings = RunSettings.read(finished[0] / "run.toml")
    assert settings.training.updates == 24
    assert RunSettings(**json.loads(settings.as_json())) == settings


def test_metrics_say_how_it_went(finished):
    lines = [json.loads(line) for line in (finished[0] / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines if "loss" in line] == [5, 10, 15, 20]
    assert [line["update"] for line in lines if "dev_bleu" in line] == [6, 12, 18, 24]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]


def test_the_page_is_one_file_that_fetches_nothing_and_runs_nothing(finished):
    page = (finished[0] / "report.html").read_text()
    assert not re.search(r"<script|<link|src=|@import|url\(|https?://", page)
    assert page.count("<svg") == 3
    assert page.count("aria-label") == 3


def test_blank_lines_of_a_test_set_stay_blank(tmp_path):
    asked = options(tmp_path, updates=3)
    asked["data"] |= write_corpus(tmp_path / "text", 5, "test")
    for side in ("source", "target"):
        path = Path(asked["data"][f"test_{side}"])
        path.write_text("\n" + path.read_text() + "  \n")
    trained(asked)
    lines = (tmp_path / "run/test.translations.txt").read_text().split("\n")
    assert (len(lines), lines[0], lines[6]) == (8, "", "")


def test_text_in_the_page_is_text(tmp_path):
    """Sentences are full of brackets; a page must not take them for its own."""
    asked = options(tmp_path, updates=6)
    source = Path(asked["data"]["dev_source"])
    source.write_text(source.read_text().replace("The ", "<img src=x> & [/red] ", 1))
    trained(asked)
    page = (tmp_path / "run/report.html").read_text()
    assert "<img" not in page
    assert "&lt;img src=x&gt; &amp; [/red]" in page


def test_a_dev_set_is_split_off_and_kept_apart(tmp_path):
    files = write_corpus(tmp_path, 400)
    held = DevSplit(corpus(*files.values()), one_in=20)
    dev, rest = {pair.source for pair in held}, {pair.source for pair in held.others}
    assert not dev & rest
    assert len(dev) + len(rest) == 400
    assert 5 <= len(dev) <= 40
    asked = options(tmp_path, updates=3) | {"data": files}
    assert trained(asked)["scored_on"] == "dev"


def test_any_symbols_can_be_learned(tmp_path):
    """Letters to sounds, with spaces between the sounds: the tokens are what stands between spaces."""
    words = [sentence.source.split()[1] for sentence in street.sentences("train", 300)]
    lines = [f"{' '.join(word)}\t{' '.join(letter.upper() + '1' for letter in word)}\n" for word in words]
    (tmp_path / "sounds.tsv").write_text("".join(lines))
    asked = options(tmp_path, updates=6) | {
        "data": {"source": str(tmp_path / "sounds.tsv")},
        "tokenizer": {"kind": "word", "vocab_size": 200, "joint": False},
    }
    report = trained(asked)
    assert report["pairs"] > 250


@pytest.mark.parametrize("average", ["none", "ema", "last"])
def test_what_is_kept_is_the_average_asked_for(tmp_path, average):
    asked = options(tmp_path, average=average, average_last=3, keep=9, updates=18)
    asked["validation"] |= {"metric": "loss"}
    trained(asked)
    run = tmp_path / "run"
    best = max(run.glob("best-*"), key=lambda path: int(path.name.split("-")[1]))
    update = int(best.name.split("-")[1])
    kept = read_weights(best / "model.safetensors")
    steps = [read_weights(run / f"step-{update - 6 * k}" / "model.safetensors") for k in range(3) if update > 6 * k]
    expected = {
        "none": steps[0],
        "ema": read_weights(run / f"step-{update}" / "average.safetensors") if average == "ema" else {},
        "last": mean(steps),
    }[average]
    for name, weight in kept.items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-7)


def test_the_moving_average_is_its_formula():
    model = torch.nn.Linear(2, 1)
    average = MovingAverage(model, decay=0.9)
    expected = model.weight.detach().clone()
    for number in range(1, 30):
        with torch.no_grad():
            model.weight += 1
        decay = min(0.9, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * model.weight.detach()
        average.update(model, number)
    torch.testing.assert_close(average.weights["weight"], expected)
    own = model.weight.detach().clone()
    with using_weights(model, average.weights):
        torch.testing.assert_close(model.weight, expected)
    assert torch.equal(model.weight, own)


def test_training_ends_early_when_nothing_gets_better(tmp_path):
    asked = options(tmp_path, updates=600, learning_rate=1e-12)
    asked["validation"] |= {"patience": 2}
    report = trained(asked)
    assert report["updates"] == 18
    assert report["ended"] == "no better bleu in 2 validations"


def test_gradients_that_are_not_finite_are_skipped_and_then_end_the_run(tmp_path):
    asked = options(tmp_path, updates=600, learning_rate=1e30, warmup=0, clip=0.0)
    listener = Listener()
    with pytest.raises(GlassformerError, match="5 updates in a row had a gradient that is not finite") as error:
        trained(asked, listener)
    assert sum("left out: its gradient is not finite" in text for text in listener.sayings) == 5
    kept = Path(re.search(r"batch is in (\S+\.json)", str(error.value))[1])
    batch = json.loads(kept.read_text())
    assert set(batch[0]) == {"pair", "source", "target"}
    assert batch[0]["source"] in Path(asked["data"]["source"]).read_text()


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    import errno

    from glassformer.training import training_loop as loop

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")

    monkeypatch.setattr(loop.Trainer, "_log_line", full)
    with pytest.raises(DirectoryError, match=r"No space left on device \(metrics.jsonl\)"):
        train(options(tmp_path))


def test_fine_tuning_goes_on_from_a_model_with_its_vocabulary(finished, tmp_path):
    run, _ = finished
    asked = options(tmp_path, updates=2) | {"finetune": str(run)}
    del asked["model"], asked["tokenizer"]
    trained(asked)
    before, after = (read_weights(next(path.glob("best-*")) / "model.safetensors") for path in (run, tmp_path / "run"))
    moved = max((before[name] - after[name]).abs().max().item() for name in before)
    assert 0 < moved < 0.1
    ours = tmp_path / "run/tokenizer/joint.model"
    assert ours.read_bytes() == (run / "tokenizer/joint.model").read_bytes()


def test_choices_grow_with_the_corpus():
    sizes = [size for size, *_ in SIZES]
    assert sizes == sorted(sizes)
    vocabularies = [choose_tokenizer(int(min(size, 1e9))).vocab_size for size in sizes]
    assert vocabularies == sorted(vocabularies)
    assert choose_model({"dropout": 0.3}, 10) == {"preset": "tiny", "dropout": 0.3}
    assert choose_model({"preset": "small"}, 10) == {"preset": "small"}


def test_settings_survive_toml(tmp_path):
    path = tmp_path / "run.toml"
    for text in ('"quoted"', "back\\slash", "über\u2028", "tab\t\x7f", "[x]=#"):
        settings = RunSettings(out=text, data=DataSettings(source=text), model={"preset": "tiny", "dropout": 0.25})
        path.write_text(settings.as_toml(), encoding="utf-8")
        assert RunSettings.read(path) == settings


def test_bfloat16_learns_too(tmp_path):
    """Where the hardware is not faster with it, it can still be asked for; weights stay in float32."""
    report = trained(options(tmp_path, precision="bfloat16", learning_rate=0.01))
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    weights = read_weights(tmp_path / "run" / report["model"] / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_ranks_fit_into_memory_and_cores(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 64)
    assert machine.choose_ranks(parameters=1_000_000) == machine.MOST_RANKS
    assert machine.choose_ranks(parameters=10**12) == 1
    monkeypatch.setattr(machine, "cores", lambda: 2)
    assert machine.choose_ranks(parameters=1_000_000) == 2


def test_a_large_run_is_planned_without_being_made():
    assert n_parameters(preset("paper-base")) == 63_082_496


def test_the_built_in_model_knows_whom_it_means():
    translator = Translator.load("street")
    assert translator.translate(list(street.PRONOUN_EXAMPLES)) == list(street.PRONOUN_EXAMPLES.values())
    assert translator.translate(["", "   "]) == ["", ""]
    verify(find_model("street"))
