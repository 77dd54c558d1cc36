"""A scene under strace, which stops it or fails it at any system call we choose. See stage.py for who plays it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

# What changes the disk. `openat` and `close` matter only on the way of these.
CALLS = (
    "write,pwrite64,writev,ftruncate,fallocate,mkdir,rename,renameat,renameat2,fsync,fdatasync,unlink,unlinkat,rmdir"
)

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Point(NamedTuple):
    """The so-many-th call of a name."""

    call: str
    number: int


@dataclass(frozen=True)
class Played:
    """How a scene ended: 0 or 1 as a command would, 2 with a traceback, below zero by a signal."""

    ended: int
    errors: str
    calls: list[str]
    """Every changing call, in order."""
    injected: bool


class Stage:
    """One process that plays one scene, `before` and `act` of a module, as often as asked."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self.process, self.directory = process, directory

    def play(self, path: Path, *inject: str) -> Played:
        errors, log = self.directory / "errors", self.directory / "log"
        child = self._asked(f"{path}\t{errors}\n")
        watch = ["strace", "-f", "-o", str(log), "-e", f"trace={CALLS}", *inject, "-p", child]
        with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            said = strace.stderr.readline()
            assert "attached" in said, said
            ended = int(self._asked("."))
        calls = [match[1] for line in log.read_text().splitlines() if (match := re.match(r"\d+\s+(\w+)\(", line))]
        return Played(ended, errors.read_text(), calls, "(INJECTED)" in log.read_text())

    def points(self, path: Path) -> list[Point]:
        """Every changing call of the scene that nothing stops."""
        calls = self.play(path).calls
        return [Point(call, number) for call in CALLS.split(",") for number in range(1, calls.count(call) + 1)]

    def killed(self, path: Path, point: Point) -> Played:
        return self.play(path, "-e", f"inject={point.call}:signal=KILL:when={point.number}")

    def failing(self, path: Path, point: Point, error: str) -> Played:
        return self.play(path, "-e", f"inject={point.call}:error={error}:when={point.number}")

    def _asked(self, order: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(order)
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def stage_of(module: str, directory: Path) -> Iterator[Stage]:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.stage", module],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(__file__).parents[2],
    ) as process:  # fmt: skip
        yield Stage(process, directory)
