"""`glassformer verify` and `glassformer bench`."""

import json

import pytest
from typer.testing import CliRunner

from glassformer.cli import app
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
    assert len(verdicts) >= 16


def test_a_failing_invariant_is_reported(small, monkeypatch):
    monkeypatch.setattr(invariants, "UncachedStepModel", lambda _: invariants.PlainStepModel(model(seed=1)))
    done = CliRunner().invoke(app, ["verify", small, "--count", "3"])
    assert done.exit_code == 1
    assert "FAILS  Decoding with KV cache = decoding without" in done.stdout
    assert "Failed: 1 of 16 invariants." in done.stdout


@only_in_test_all  # half a minute: the other packages are imported in separate processes
def test_bench_measures_every_available_system(small):
    out = glassformer("bench", small, "--count", "4", "--rounds", "1", "--beam", "2", "--json")
    table = json.loads(out.stdout)
    names = [one["name"] for one in table["figures"]]
    assert names[:3] == ["glassformer float32", "glassformer float16", "glassformer int8"]
    assert "glassformer plain" in names
    assert all(one["tokens_per_second"] > 0 and one["median"] <= one["p95"] for one in table["figures"])
    assert all(one["memory"] > 2**20 for one in table["figures"])
    assert "hugging face" in names  # as a Marian model, with its sinusoidal positions as a table


def test_text_without_a_usable_line_is_refused(small, tmp_path):
    (tmp_path / "text").write_text("\n \n")
    done = glassformer("verify", small, "--text", str(tmp_path / "text"))
    assert done.returncode == 1
    assert "has no usable line. Expected sentences of at most 128 tokens, one per line." in done.stderr
