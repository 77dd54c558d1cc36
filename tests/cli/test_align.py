"""`glassformer align`: one line of links per pair, and the choice of heads."""

import json
import shutil
from pathlib import Path

import pytest

from glassformer.atomic_directory import verify
from glassformer.builtin import street
from glassformer.builtin.street.word_links import links, words
from glassformer.decoding.alignment_choice import read_alignment_heads
from glassformer.model import load_model
from glassformer.model_location import find_model
from glassformer.training import train_run
from tests.processes import glassformer
from tests.small_translator import saved
from tests.training.runs import options


def write(directory: Path, split: street.Split, count: int, gap: int | None = None) -> list[str]:
    """Write pairs and their true links to files; the files as command-line options. A blank pair goes at line `gap`."""
    pairs = list(street.sentences(split, count))
    sides = {"source": [pair.source for pair in pairs], "target": [pair.target for pair in pairs], "gold": []}
    for pair in pairs:
        sure, possible = links(pair)
        only_possible = [f"{i}p{j}" for i, j in sorted(possible - sure)]
        sides["gold"].append(" ".join([*(f"{i}-{j}" for i, j in sorted(sure)), *only_possible]))
    for name, lines in sides.items():
        if gap is not None:
            lines.insert(gap, "")
        (directory / f"{split}.{name}").write_text("".join(f"{line}\n" for line in lines))
    return [part for name in sides for part in (f"--{name}", str(directory / f"{split}.{name}"))]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    return write(tmp_path_factory.mktemp("files"), "test", 40, gap=7)


def run(*arguments: str) -> tuple[list[str], str]:
    done = glassformer("align", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def numbers(stderr: str) -> dict[str, float]:
    """AER, precision and recall from the line on stderr."""
    [line] = [line for line in stderr.splitlines() if line.startswith("AER")]
    return {name.lower(): float(value) for name, value in (part.split()[:2] for part in line.split(", "))}


def test_a_line_of_links_for_every_pair_and_the_error_rate_beside(files):
    lines, stderr = run("street", *files, "--words", "apart")
    assert len(lines) == 41
    assert lines[7] == ""
    pairs = list(street.sentences("test", 40))
    for line, pair in zip(lines[:7] + lines[8:], pairs, strict=True):
        found = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert [target for _, target in found] == list(range(len(words(pair.target))))
        assert all(0 <= source < len(words(pair.source)) for source, _ in found)
    assert numbers(stderr)["aer"] < 0.3
    assert "links are uncertain." in stderr
    assert "--choose" not in stderr


def test_json_has_the_words_and_the_same_links(files):
    plain, _ = run("street", *files[:4])
    lines, _ = run("street", *files[:4], "--json")
    for text, line in zip(plain, map(json.loads, lines), strict=True):
        assert text == " ".join(f"{link['source']}-{link['target']}" for link in line["alignment"])
        assert line["source_words"] == words(line["source"])
        assert line["target_words"] == words(line["target"])
    assert any(link.get("uncertain") for line in map(json.loads, lines) for link in line["alignment"])


def test_fewer_links_on_demand_are_more_precise(files):
    every = numbers(run("street", *files, "--words", "apart")[1])
    mutual = numbers(run("street", *files, "--words", "apart", "--mutual")[1])
    large = numbers(run("street", *files, "--words", "apart", "--at-least", "0.9")[1])
    assert mutual["precision"] > every["precision"]
    assert large["precision"] > every["precision"]
    assert mutual["recall"] <= every["recall"]
    assert large["recall"] <= every["recall"]


@pytest.mark.parametrize("by", ["gold", "learned"])
def test_heads_are_chosen_and_kept_with_the_model(tmp_path, files, by):
    model = tmp_path / "model"
    shutil.copytree(find_model("street"), model)
    (model / "alignment.json").unlink()
    manifest = json.loads((model / "manifest.json").read_text())
    del manifest["files"]["alignment.json"]
    (model / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    before, stderr = run(str(model), *files, "--words", "apart")
    assert "--choose measures" in stderr
    given = write(tmp_path, "dev", 300)
    chosen_files = given if by == "gold" else given[:4]
    lines, choosing = run(str(model), *chosen_files, "--words", "apart", "--choose")
    assert "The best single heads on 300 pairs" in lines[0]
    assert ("or more pairs are needed to learn links well" in choosing) == (by == "learned")
    assert str(model / "alignment.json") in choosing
    assert "alignment.json" in verify(model)
    choice = read_alignment_heads(model, load_model(model).config)
    assert choice.measured_by == by
    after, better = run(str(model), *files, "--words", "apart")
    assert len(after) == len(before)
    assert numbers(better)["aer"] < numbers(stderr)["aer"] / 2
    again = json.loads("\n".join(run(str(model), *chosen_files, "--words", "apart", "--choose", "--json")[0]))
    assert again["choice"] == choice.model_dump()
    assert again["singles"][0]["aer"] >= again["choice"]["aer"]


def test_a_built_in_model_stays_as_it_is(files):
    before = (find_model("street") / "manifest.json").read_bytes()
    lines, stderr = run("street", *files[:4], "--choose")
    assert lines
    assert "The heads of a built-in model are not changed: copy the model directory" in stderr
    assert (find_model("street") / "manifest.json").read_bytes() == before


def test_words_between_spaces_are_counted_as_they_stand(tmp_path):
    (tmp_path / "a").write_text("The dog , was tired .\n")
    (tmp_path / "b").write_text("Der Hund war müde.\n")
    (tmp_path / "gold").write_text("0-0 1-1 3-2 4-3\n")
    files = ["--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]
    model = str(saved(tmp_path / "model"))
    assert [len(run(model, *files, "--words", kind)[0][0].split()) for kind in ("apart", "spaces")] == [5, 4]
    numbers(run(model, *files, "--gold", str(tmp_path / "gold"), "--words", "spaces")[1])
    done = glassformer("align", model, *files, "--gold", str(tmp_path / "gold"))
    assert done.returncode == 1
    assert "split at spaces there are 6 and 4 words, with punctuation separated 6 and 5" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("0-0\n", "1 lines for 2 pairs; expected one line per pair"),
        ("0-0\n0:1\n", "gold, line 2: '0:1' is not a link"),
        ("0-0\n0-9\n", "gold, line 2: the link 0-9 is out of range for 2 source and 2 target words"),
    ],
)
def test_gold_that_does_not_fit_is_named_with_its_place(tmp_path, gold, message):
    for name in "ab":
        (tmp_path / name).write_text("The dog\nThe dog\n")
    (tmp_path / "gold").write_text(gold)
    files = [f"--{option}={tmp_path / name}" for option, name in (("source", "a"), ("target", "b"), ("gold", "gold"))]
    done = glassformer("align", "street", *files)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_asked_is_one_sentence(tmp_path, files):
    for arguments, message in (
        (["nowhere", *files[:4]], "There is no file or directory nowhere"),
        (["street", *files[:4], "--words", "letters"], "Unknown --words 'letters'; choose apart or spaces"),
        (["street", "--source", files[1]], "give --target as well"),
        (
            ["street", *files[:4], "--target-language", "de"],
            "does not support the language 'de': it was trained for one language pair",
        ),
    ):
        done = glassformer("align", *arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_training_ends_with_a_choice(tmp_path):
    """The model of a finished run has its alignment heads, and the same run chooses the same ones."""
    choices = []
    for out in ("one", "other"):
        train_run(options(tmp_path, out, updates=6))
        directory = find_model(tmp_path / out)
        choices.append(read_alignment_heads(directory, load_model(directory).config))
        assert "alignment.json" in verify(directory)
    assert choices[0] == choices[1]
    assert choices[0].measured_by == "learned"
