"""The command line as a person meets it: results on stdout, errors as one sentence, pipes that may close."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.model import PRESETS, preset, save_model, taps
from tests.models import build

COMMAND = Path(sys.executable).with_name("glassformer")


def glassformer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=120)


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
    ("arguments", "says"),
    [
        (["describe", "nowhere"], "nowhere is neither a model directory nor a preset"),
        (["describe", "[/red]"], "[/red] is neither a model directory nor a preset"),
        (["describe", "."], "has no manifest.json"),
    ],
)
def test_what_a_user_can_cause_is_one_sentence(arguments, says):
    done = glassformer(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("glassformer: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_describe_names_every_preset_in_its_help():
    """Written out in the help, because reading them would import torch."""
    text = " ".join(glassformer("describe", "--help").stdout.replace("│", " ").split())
    assert all(f" {name}," in text or f" {name}." in text for name in PRESETS)


def test_wrong_usage_is_exit_code_2():
    assert glassformer("describe", "tiny", "--nonsense").returncode == 2
    assert glassformer("nonsense").returncode == 2


def test_a_pipe_that_closes_is_no_traceback():
    done = subprocess.run(
        f"{COMMAND} describe paper-big --json | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_the_demo_answers_the_question():
    done = glassformer("demo")
    assert done.returncode == 0
    assert "Whose W_K and W_V? Each decoder layer's own" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("decoder layer ")]
    assert [row[3:6] for row in rows] == [["1", "time", "0"]] * 3
    assert all(row[-2:] == ["6", "times"] for row in rows)
