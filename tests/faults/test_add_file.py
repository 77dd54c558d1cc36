"""A file that is added to a sealed directory, or replaced, when the system fails: the directory is always whole."""

import shutil
import signal
from pathlib import Path

import pytest

from glassformer.sealed import read_file, verify
from tests.faults.tracing import MARK, Point, points_of, under_strace

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

ADD = f"""
import sys
from pathlib import Path
from glassformer.errors import GlassformerError
from glassformer.sealed import add_file, building
directory = Path(sys.argv[1]) / "sealed"
with building(directory) as under_way:
    (under_way / "other").write_bytes(b"stays")
add_file(directory, "choice", b"old")
open(Path(sys.argv[1]) / "{MARK}", "w").close()
try:
    add_file(directory, "choice", b"new, and longer")
except GlassformerError as error:
    sys.exit(f"glassformer: {{error}}")
"""


@pytest.fixture(scope="module")
def points(tmp_path_factory) -> list[Point]:
    directory = tmp_path_factory.mktemp("dry-run")
    found = points_of(ADD, directory, directory / "log")
    assert len(found) >= 12  # three files: written, synced, renamed, and their directory synced
    return found


def contents(run: Path) -> bytes | None:
    assert "other" in verify(run / "sealed")
    return read_file(run / "sealed", "choice")


def test_killed_at_every_system_call_the_directory_is_whole(points, tmp_path):
    outcomes = set()
    for name, number in points:
        run = tmp_path / f"{name}-{number}"
        run.mkdir()
        done = under_strace(ADD, run, tmp_path / "log", "-e", f"inject={name}:signal=KILL:when={number}")
        assert done.returncode == -signal.SIGKILL, (name, number, done)
        outcomes.add(contents(run))
    assert outcomes == {b"old", None, b"new, and longer"}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_an_error_at_any_system_call_is_one_sentence_and_the_directory_is_whole(points, tmp_path, error):
    for name, number in points:
        run = tmp_path / f"{name}-{number}"
        run.mkdir()
        done = under_strace(ADD, run, tmp_path / "log", "-e", f"inject={name}:error={error}:when={number}")
        assert "(INJECTED)" in (tmp_path / "log").read_text(), (name, number)
        assert "Traceback" not in done.stderr, (name, number, done.stderr)
        assert contents(run) in (b"old", None, b"new, and longer")
        assert (contents(run) == b"new, and longer") or done.returncode == 1
