"""A file that is added to a sealed directory, or replaced, when the system fails: the directory is always whole."""

import signal
from pathlib import Path

import pytest

from glassformer.atomic_directory import add_file, building, read_file, verify
from tests.faults.tracing import Point, Stage, needs_strace

pytestmark = needs_strace


def before(directory: Path) -> None:
    with building(directory) as under_way:
        (under_way / "other").write_bytes(b"stays")
    add_file(directory, "choice", b"old")


def act(directory: Path) -> None:
    add_file(directory, "choice", b"new, and longer")


@pytest.fixture
def points(stage: Stage, tmp_path) -> list[Point]:
    found = stage.points(tmp_path / "dry-run")
    assert len(found) >= 12  # three files: written, synced, renamed, and their directory synced
    return found


def contents(directory: Path) -> bytes | None:
    assert "other" in verify(directory)
    return read_file(directory, "choice")


def test_killed_at_every_system_call_the_directory_is_whole(stage, points, tmp_path):
    outcomes = set()
    for point in points:
        directory = tmp_path / "-".join(map(str, point))
        assert stage.killed(directory, point).ended == -signal.SIGKILL, point
        outcomes.add(contents(directory))
    assert outcomes == {b"old", None, b"new, and longer"}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_an_error_at_any_system_call_is_one_sentence_and_the_directory_is_whole(stage, points, tmp_path, error):
    for point in points:
        directory = tmp_path / "-".join(map(str, point))
        played = stage.failing(directory, point, error)
        assert played.injected, point
        assert played.ended in (0, 1), (point, played.errors)
        assert contents(directory) in (b"old", None, b"new, and longer")
        assert (contents(directory) == b"new, and longer") or played.ended == 1
