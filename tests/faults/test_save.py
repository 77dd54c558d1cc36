"""Fault injection while a model is saved: it is complete or absent afterwards, never partly written."""

import os
import signal
from pathlib import Path

import pytest

from glassformer import Transformer, preset, save_model
from glassformer.model import load_model
from tests.examples import cases
from tests.faults.tracing import Point, ScenarioRunner, needs_strace

pytestmark = needs_strace


def before(path: Path) -> None:
    path.parent.mkdir()


def act(path: Path) -> None:
    save_model(Transformer(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4)), path)


@pytest.fixture
def points(runner: ScenarioRunner, tmp_path) -> list[Point]:
    points = runner.points(tmp_path / "dry-run" / "model")
    assert len(points) > 10
    return points


def complete_or_absent(path: Path) -> bool:
    """Whether the model is there; if it is, it must load."""
    if not path.exists():
        return False
    load_model(path)
    return True


def test_contents_are_on_disk_before_the_name_is(runner, tmp_path):
    """nodedb#78, litestream PR#1344: a rename without fsync can leave a name with zeros behind it."""
    outcome = runner.run(tmp_path / "run" / "model")
    assert outcome.exit_code == 0, outcome.errors
    calls = [call for call in outcome.calls if call in ("fsync", "rename", "write")]
    # The safetensors library renames the weights file itself; our rename, the last one, publishes the directory.
    published = max(i for i, call in enumerate(calls) if call == "rename")
    earlier, later = calls[:published], calls[published + 1 :]
    assert earlier[-4:] == ["fsync"] * 4, "three files and their directory"
    assert later == ["fsync"], "the parent directory, which holds the new name"


def test_killed_at_every_system_call_the_model_is_complete_or_absent(runner, points, tmp_path):
    outcomes = []
    for point in points:
        path = tmp_path / "-".join(map(str, point)) / "model"
        assert runner.killed(path, point).exit_code == -signal.SIGKILL, point
        outcomes.append(complete_or_absent(path))
    assert set(outcomes) == {True, False}, "only the last call comes after the rename"


@pytest.mark.parametrize("error", cases("ENOSPC", more=["EIO"]))
def test_an_error_at_every_system_call_is_one_sentence_and_leaves_nothing(runner, points, tmp_path, error):
    for point in points:
        if point.call in ("unlink", "unlinkat", "rmdir"):
            continue  # these belong to the cleanup
        path = tmp_path / "-".join(map(str, point)) / "model"
        outcome = runner.failing(path, point, error)
        assert outcome.injected, point
        if complete_or_absent(path):
            continue  # the library may retry another way, and the last fsync comes after the rename
        assert outcome.exit_code == 1, (point, outcome.errors)
        assert len(outcome.errors.splitlines()) == 1
        assert os.listdir(path.parent) == [], point
