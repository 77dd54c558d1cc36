"""Fault injection while a file is added to a checksummed directory, or replaced: the directory always verifies."""

import signal
from pathlib import Path

import pytest

from glassformer.atomic_directory import add_file, building, read_file, verify
from tests.examples import cases
from tests.faults.tracing import Point, ScenarioRunner, needs_strace

pytestmark = needs_strace


def before(directory: Path) -> None:
    with building(directory) as under_way:
        (under_way / "other").write_bytes(b"stays")
    add_file(directory, "choice", b"old")


def act(directory: Path) -> None:
    add_file(directory, "choice", b"new, and longer")


@pytest.fixture
def points(runner: ScenarioRunner, tmp_path) -> list[Point]:
    points = runner.points(tmp_path / "dry-run")
    assert len(points) >= 12  # three files: written, synced, renamed, and their directory synced
    return points


def contents(directory: Path) -> bytes | None:
    assert "other" in verify(directory)
    return read_file(directory, "choice")


def test_killed_at_every_system_call_the_directory_is_whole(runner, points, tmp_path):
    outcomes = set()
    for point in points:
        directory = tmp_path / "-".join(map(str, point))
        assert runner.killed(directory, point).exit_code == -signal.SIGKILL, point
        outcomes.add(contents(directory))
    assert outcomes == {b"old", None, b"new, and longer"}


@pytest.mark.parametrize("error", cases("ENOSPC", more=["EIO"]))
def test_an_error_at_any_system_call_is_one_sentence_and_the_directory_is_whole(runner, points, tmp_path, error):
    for point in points:
        directory = tmp_path / "-".join(map(str, point))
        outcome = runner.failing(directory, point, error)
        assert outcome.injected, point
        assert outcome.exit_code in (0, 1), (point, outcome.errors)
        assert contents(directory) in (b"old", None, b"new, and longer")
        assert (contents(directory) == b"new, and longer") or outcome.exit_code == 1
