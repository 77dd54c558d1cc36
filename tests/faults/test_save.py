"""A save that is stopped at any system call leaves the old state or the new one, never something between."""

import os
import signal
from pathlib import Path

import pytest

from glassformer import Transformer, preset, save_model
from glassformer.model import load_model
from tests.faults.tracing import Point, Stage, needs_strace

pytestmark = needs_strace


def before(path: Path) -> None:
    path.parent.mkdir()


def act(path: Path) -> None:
    save_model(Transformer(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4)), path)


@pytest.fixture
def points(stage: Stage, tmp_path) -> list[Point]:
    found = stage.points(tmp_path / "dry-run" / "model")
    assert len(found) > 10
    return found


def complete_or_absent(path: Path) -> bool:
    """Whether the model is there; if it is, it must load."""
    if not path.exists():
        return False
    load_model(path)
    return True


def test_contents_are_on_disk_before_the_name_is(stage, tmp_path):
    """nodedb#78, litestream PR#1344: a rename without fsync can leave a name with zeros behind it."""
    played = stage.play(tmp_path / "run" / "model")
    assert played.ended == 0, played.errors
    calls = [call for call in played.calls if call in ("fsync", "rename", "write")]
    # The library puts the weights in place by a rename of its own; ours, the last, is the one that publishes.
    published = max(i for i, call in enumerate(calls) if call == "rename")
    earlier, later = calls[:published], calls[published + 1 :]
    assert earlier[-4:] == ["fsync"] * 4, "three files and their directory"
    assert later == ["fsync"], "the directory above, which holds the new name"


def test_killed_at_every_system_call_the_model_is_complete_or_absent(stage, points, tmp_path):
    outcomes = []
    for point in points:
        path = tmp_path / "-".join(map(str, point)) / "model"
        assert stage.killed(path, point).ended == -signal.SIGKILL, point
        outcomes.append(complete_or_absent(path))
    assert set(outcomes) == {True, False}, "only the last call comes after the name is there"


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_an_error_at_every_system_call_is_one_sentence_and_leaves_nothing(stage, points, tmp_path, error):
    for point in points:
        if point.call in ("unlink", "unlinkat", "rmdir"):
            continue  # cleaning up is what these do
        path = tmp_path / "-".join(map(str, point)) / "model"
        played = stage.failing(path, point, error)
        assert played.injected, point
        if complete_or_absent(path):
            continue  # the library may have a second way, and the last fsync comes after the name is there
        assert played.ended == 1, (point, played.errors)
        assert len(played.errors.splitlines()) == 1
        assert os.listdir(path.parent) == [], point
