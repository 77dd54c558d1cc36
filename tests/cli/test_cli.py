"""The command line: results on stdout, errors as one sentence on stderr, closed pipes."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from glassformer.builtin.street import PRONOUN_EXAMPLES
from glassformer.cli.demo import OPTIONS
from glassformer.inspection.interventions.cross_attention_report import whose_keys_and_values
from glassformer.model import PRESETS, Transformer, preset, save_model, taps
from tests.models import build
from tests.processes import COMMAND, ROOT, glassformer


@pytest.fixture
def saved(tmp_path) -> Path:
    save_model(build(preset("tiny", vocab_size=20, share_embeddings=False, tie_output=False)), tmp_path / "model")
    return tmp_path / "model"


def test_describe_a_directory(saved):
    done = glassformer("describe", str(saved))
    assert done.returncode == 0
    assert "20 source and 20 target tokens" in done.stdout
    assert "decoder cross-attention  W_Q" in done.stdout


def test_describe_as_json_holds_every_name(saved):
    description = json.loads(glassformer("describe", str(saved), "--json").stdout)
    model = build(preset("tiny", vocab_size=20, share_embeddings=False, tie_output=False))
    assert [entry["name"] for entry in description["parameters"]] == [name for name, _ in model.named_parameters()]
    assert [entry["name"] for entry in description["taps"]] == list(taps(model))
    assert description["config"] == model.config.model_dump(mode="json")


def test_names_are_never_cut_in_a_pipe(saved):
    lines = glassformer("describe", str(saved), "--names").stdout.splitlines()
    assert any(line.startswith("decoder.layers.3.cross_attention_norm.residual ") for line in lines)
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "nowhere"], "There is no file or directory nowhere, and no built-in model of that name"),
        (["describe", "[/red]"], "There is no file or directory [/red], and no built-in model of that name"),
        (
            ["describe", "."],
            ". has an unrecognised format. Expected a Glassformer model or run directory, a Hugging Face",
        ),
        (["street", __file__], "test_cli.py is a file: choose another name for the directory."),
    ],
)
def test_what_a_user_can_cause_is_one_sentence(arguments, message):
    done = glassformer(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("glassformer: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_describe_names_every_preset_in_its_help():
    """They are written out in the help, because importing them would import torch."""
    text = " ".join(glassformer("describe", "--help").stdout.replace("│", " ").split())
    assert all(f" {name}," in text or f" {name}." in text for name in PRESETS)


def test_help_pages_show_metavars_and_no_python_types():
    commands = re.findall(r"^│ ([a-z-]+)  ", glassformer("--help").stdout, re.MULTILINE)
    assert len(commands) > 15
    for arguments in [[], *([command] for command in commands)]:
        done = glassformer(*arguments, "--help")
        assert done.returncode == 0, done.stderr
        assert not re.search(
            r"<(str|int|float|bool|path|list|file|directory)\b|\b(TEXT|INTEGER|FLOAT|PATH) RANGE", done.stdout
        )


def test_wrong_usage_is_exit_code_2():
    assert glassformer("describe", "tiny", "--nonsense").returncode == 2
    assert glassformer("nonsense").returncode == 2


def test_a_pipe_that_closes_is_no_traceback():
    done = subprocess.run(
        f"{COMMAND} describe paper-big --json | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_whose_keys_and_values_is_answered_with_the_models_own_numbers():
    torch.manual_seed(1)
    model = Transformer(preset("tutorial", vocab_size=40, source_vocab_size=40)).eval()
    answer = whose_keys_and_values(model, torch.tensor([[5, 6, 7, 2]]))
    rows = [line.split() for line in answer.splitlines() if line.startswith("decoder layer ")]
    assert [row[3:6] for row in rows] == [["1", "time", "0"]] * 3
    assert len({row[-2] for row in rows}) == 1
    assert "each decoder layer computed K and V with its own W_K and W_V" in " ".join(answer.split())


SHORT_DEMO = """
import sys
from importlib import import_module
from glassformer.cli import main
demo, street = import_module("glassformer.cli.demo"), import_module("glassformer.cli.street")
demo.OPTIONS["training"]["updates"] = 4
demo.OPTIONS["validation"]["every"] = 2
street.DEV_PAIRS = street.TEST_PAIRS = 5
demo.write_street = lambda out: street.write_street(out, 400)
sys.argv = ["glassformer", "demo"]
main()
"""


def test_the_demo_trains_scores_translates_and_reports(tmp_path):
    """With four updates only; `make demo` runs the whole demo."""
    for again in (False, True):
        command = [sys.executable, "-W", "error", "-c", SHORT_DEMO]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "The animal didn't cross the street because it was too wide." in done.stdout
        assert "Each decoder layer uses its own W_K and W_V on the encoder's output." in done.stdout
        report = json.loads((tmp_path / "runs/demo/report.json").read_text())
        expected = {"bleu", "chrf", "signature", "pronoun_accuracy", "seconds", "translations"}
        assert expected <= report.keys()
        assert [sample["source"] for sample in report["translations"][:2]] == list(PRONOUN_EXAMPLES)
        assert len(report["translations"]) == 7
        page = (tmp_path / "runs/demo/report.html").read_text()
        assert "What does &ldquo;it&rdquo; refer to?" in page
        assert '<iframe title="glassformer explorer: The animal' in page
        assert ("already finished" in done.stderr) == again


def test_the_recipe_of_the_demo_is_the_demo():
    recipe = tomllib.loads((ROOT / "recipes/street.toml").read_text())
    assert {name: recipe[name] for name in OPTIONS} == OPTIONS


def test_street_writes_the_corpus(tmp_path):
    done = glassformer("street", str(tmp_path / "text"), "--train", "50")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "text/train.en").read_text().splitlines()) == 50
    assert len((tmp_path / "text/test.de").read_text().splitlines()) == 1000
