"""Fault injection with strace: kill a scenario, or fail it, at any chosen system call. stage.py is its process."""

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

# System calls that change the disk. `openat` and `close` matter only through these.
CALLS = (
    "write,pwrite64,writev,ftruncate,fallocate,mkdir,rename,renameat,renameat2,fsync,fdatasync,unlink,unlinkat,rmdir"
)

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Point(NamedTuple):
    """The n-th call (from 1) of a system call."""

    call: str
    number: int


@dataclass(frozen=True)
class Outcome:
    """Result of a scenario. Exit codes: 0 or 1 as of a command, 2 with a traceback, negative for a signal."""

    exit_code: int
    errors: str
    calls: list[str]
    """All calls that change the disk, in order."""
    injected: bool


class ScenarioRunner:
    """One process that runs one scenario, `before` and `act` of a module, any number of times."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self.process, self.directory = process, directory

    def run(self, path: Path, *inject: str) -> Outcome:
        errors, log = self.directory / "errors", self.directory / "log"
        child = self._request(f"{path}\t{errors}\n")
        command = ["strace", "-f", "-o", str(log), "-e", f"trace={CALLS}", *inject, "-p", child]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            line = strace.stderr.readline()
            assert "attached" in line, line
            exit_code = int(self._request("."))
        calls = [match[1] for line in log.read_text().splitlines() if (match := re.match(r"\d+\s+(\w+)\(", line))]
        return Outcome(exit_code, errors.read_text(), calls, "(INJECTED)" in log.read_text())

    def points(self, path: Path) -> list[Point]:
        """Every call that changes the disk in an undisturbed run of the scenario."""
        calls = self.run(path).calls
        return [Point(call, number) for call in CALLS.split(",") for number in range(1, calls.count(call) + 1)]

    def killed(self, path: Path, point: Point) -> Outcome:
        return self.run(path, "-e", f"inject={point.call}:signal=KILL:when={point.number}")

    def failing(self, path: Path, point: Point, error: str) -> Outcome:
        return self.run(path, "-e", f"inject={point.call}:error={error}:when={point.number}")

    def _request(self, text: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def scenario_runner(module: str, directory: Path) -> Iterator[ScenarioRunner]:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.stage", module],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(__file__).parents[2],
    ) as process:  # fmt: skip
        yield ScenarioRunner(process, directory)
