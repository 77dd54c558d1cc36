"""A save that is stopped at any system call leaves the old state or the new one, never something between."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from glassformer.model import load_model
from tests.faults.tracing import EVERYTHING, Point, calls_since_mark, points_of, under_strace

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

SAVE = """
import sys
from glassformer import GlassformerError, Transformer, preset, save_model
model = Transformer(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
import glassformer.sealed, safetensors.torch  # whatever is imported, is imported before the save
open(sys.argv[1] + ".save-begins", "w").close()  # where the save begins in strace's log
try:
    save_model(model, sys.argv[1])
except GlassformerError as error:
    sys.exit(f"glassformer: {error}")
"""


@pytest.fixture(scope="module")
def points(tmp_path_factory) -> list[Point]:
    """Every changing call of a save, as (name, which call of that name in the whole process)."""
    directory = tmp_path_factory.mktemp("dry-run")
    return points_of(SAVE, directory / "model", directory / "log")


def complete_or_absent(path: Path) -> bool:
    """Whether the model is there; if it is, it must load."""
    if not path.exists():
        return False
    load_model(path)
    return True


def test_contents_are_on_disk_before_the_name_is(tmp_path):
    """nodedb#78, litestream PR#1344: a rename without fsync can leave a name with zeros behind it."""
    assert under_strace(SAVE, tmp_path / "model", tmp_path / "log").returncode == 0
    calls = [call for call in calls_since_mark(tmp_path / "log") if call in ("fsync", "rename", "write")]
    # The library puts the weights in place by a rename of its own; ours, the last, is the one that publishes.
    published = max(i for i, call in enumerate(calls) if call == "rename")
    before, after = calls[:published], calls[published + 1 :]
    assert before[-4:] == ["fsync"] * 4, "three files and their directory"
    assert after == ["fsync"], "the directory above, which holds the new name"


def test_killed_at_every_system_call_the_model_is_complete_or_absent(points, tmp_path):
    outcomes = {}
    for name, number in points:
        path = tmp_path / f"{name}-{number}" / "model"
        path.parent.mkdir()
        done = under_strace(SAVE, path, tmp_path / "log", "-e", f"inject={name}:signal=KILL:when={number}")
        assert done.returncode == -signal.SIGKILL, (name, number, done)
        outcomes[name, number] = complete_or_absent(path)
    assert len(outcomes) > 10
    assert set(outcomes.values()) == {True, False}, "only the last call comes after the name is there"


@pytest.mark.parametrize(("which", "error"), [(0, "ENOSPC"), (1, "EIO")])
def test_an_error_at_every_system_call_is_one_sentence_and_leaves_nothing(points, tmp_path, which, error):
    for name, number in points if EVERYTHING else points[which::2]:
        if name in ("unlink", "unlinkat", "rmdir"):
            continue  # cleaning up is what these do
        path = tmp_path / f"{name}-{number}" / "model"
        path.parent.mkdir()
        done = under_strace(SAVE, path, tmp_path / "log", "-e", f"inject={name}:error={error}:when={number}")
        assert "(INJECTED)" in (tmp_path / "log").read_text(), (name, number)
        if complete_or_absent(path):
            continue  # the library may have a second way, and the last fsync comes after the name is there
        assert done.returncode == 1, (name, number, done)
        assert done.stderr.startswith("glassformer: "), (name, number, done.stderr)
        assert "Traceback" not in done.stderr
        assert os.listdir(path.parent) == ["model.save-begins"], (name, number)
