"""`glassformer verify` and `glassformer bench`."""

import json
import re

import pytest
from typer.testing import CliRunner

from glassformer.benchmark.cold_start import cold_start_command, measure_cold_starts
from glassformer.cli import app
from glassformer.engine import fast_precisions
from glassformer.engine.native_library import loaded
from glassformer.model import ModelWeights
from glassformer.verification import invariants
from tests.examples import only_in_test_all
from tests.processes import glassformer
from tests.small_translator import model, saved


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    return str(saved(tmp_path_factory.mktemp("models") / "small"))


def test_every_invariant_holds_for_a_small_model(small, tmp_path):
    (tmp_path / "text").write_text("The street is wide.\n\nThe animal did not cross the street.\n")
    out = glassformer("verify", small, "--text", str(tmp_path / "text"), "--beam", "2", "--json")
    verdicts = json.loads(out.stdout)
    assert all(one["held"] == one["tried"] == 2 for one in verdicts)
    assert len(verdicts) == 13 + len(fast_precisions())


def test_a_failing_invariant_is_reported(small, monkeypatch):
    monkeypatch.setattr(invariants, "UncachedStepModel", lambda _: invariants.PlainStepModel(model(seed=1)))
    done = CliRunner().invoke(app, ["verify", small, "--count", "3"])
    assert done.exit_code == 1
    assert "FAILS  Decoding with KV cache = decoding without" in done.stdout
    assert f"Failed: 1 of {13 + len(fast_precisions())} invariants." in done.stdout


def test_bench_prints_a_row_per_system(small):
    options = ("--count", "4", "--rounds", "1", "--only", "glassformer int8", "--only", "no such", "--beam", "2")
    out = glassformer("bench", small, *options, "--batch-size", "1", "--batch-size", "2").stdout
    title, speeds, costs, machine = out.strip().split("\n\n")
    assert title == "Tokens per second (relative to glassformer int8), best of 1 rounds"
    assert speeds.split("\n")[0].split("  ")[-2:] == ["beam 2, batch 1", "beam 2, batch 2"]
    assert re.fullmatch(r"glassformer int8( +[\d,]+ \(1\.00\)){2}", speeds.split("\n")[1])
    assert re.fullmatch(r"glassformer int8( +[\d.]+ ms){2} +[\d,]+ MB +[\d.]+ s +[\d,]+ MB", costs.split("\n")[1])
    assert "float32 product" in machine


def test_bench_refuses_names_of_no_system(small):
    done = glassformer("bench", small, "--only", "nothing")
    assert done.returncode != 0
    assert "--only 'nothing' names no system" in done.stderr


def test_a_process_that_fails_has_no_cold_start(small, tmp_path):
    commands = {
        name: cold_start_command(
            f"glassformer {name}", where, "The street is wide.", [5, 2], ModelWeights.of(model()), tmp_path
        )
        for name, where in (("float32", small), ("int8", f"{small}/missing"))
    }
    starts, failures = measure_cold_starts(commands, 1)
    assert list(starts) == ["float32"]
    assert starts["float32"].memory > 2**20
    assert len(failures) == 1
    assert failures[0].startswith("int8 did not translate a sentence in a fresh process: ")
    assert "missing" in failures[0]


@only_in_test_all  # half a minute: the other packages are imported in separate processes
def test_bench_measures_every_available_system(small):
    sizes = ("--beam", "2", "--batch-size", "1", "--batch-size", "3")
    out = glassformer("bench", small, "--count", "4", "--rounds", "1", *sizes, "--json")
    table = json.loads(out.stdout)
    native = loaded()
    assert table["library"] == (native and {"instruction_set": native.instruction_set, "digest": native.digest})
    names = [one["name"] for one in table["figures"] if one["batch_size"] == 1]
    assert names == [one["name"] for one in table["figures"] if one["batch_size"] == 3]
    ours = [f"glassformer {precision}" for precision in fast_precisions()]
    assert names[: len(ours)] == ours
    assert "glassformer plain" in names
    assert all(one["tokens_per_second"] > 0 for one in table["figures"])
    assert all(one["median"] <= one["p95"] for one in table["figures"] if one["batch_size"] == 1)
    assert [one["name"] for one in table["cold_starts"]] == [name for name in names if name != "hugging face"]
    assert all(one["seconds"] > 0 and one["memory"] > 2**20 for one in table["cold_starts"])
    assert all(one["memory"] > 2**20 for one in table["figures"])
    assert "hugging face" in names  # as a Marian model, with its sinusoidal positions as a table


def test_text_without_a_usable_line_is_refused(small, tmp_path):
    (tmp_path / "text").write_text("\n \n")
    done = glassformer("verify", small, "--text", str(tmp_path / "text"))
    assert done.returncode == 1
    assert "has no usable line. Expected sentences of at most 128 tokens, one per line." in done.stderr
