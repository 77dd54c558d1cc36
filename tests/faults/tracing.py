"""Running a script under strace, which stops it or fails it at any system call we choose."""

import os
import re
import subprocess
import sys
from pathlib import Path

# What changes the disk. `openat` and `close` matter only on the way of these.
CALLS = (
    "write,pwrite64,writev,ftruncate,fallocate,mkdir,rename,renameat,renameat2,fsync,fdatasync,unlink,unlinkat,rmdir"
)
MARK = ".save-begins"  # a script opens a file of this name where what interests us begins
EVERYTHING = os.environ.get("GLASSFORMER_FAULTS") == "all"  # else a few points of the longer lists

Point = tuple[str, int]


def under_strace(script: str, argument: Path, log: Path, *inject: str) -> subprocess.CompletedProcess[str]:
    command = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS},openat", *inject]
    return subprocess.run(
        [*command, sys.executable, "-c", script, str(argument)],
        capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def points_of(script: str, argument: Path, log: Path) -> list[Point]:
    """The points of a script that nothing stops."""
    done = under_strace(script, argument, log)
    assert done.returncode == 0, done.stderr
    return all_points(log)


def calls_since_mark(log: Path) -> list[str]:
    lines = log.read_text().splitlines()
    begin = max(i for i, line in enumerate(lines) if MARK in line)
    return [match[1] for line in lines[begin + 1 :] if (match := re.match(r"\d+\s+(\w+)\(", line))]


def all_points(log: Path) -> list[Point]:
    """Every changing call since the mark, as (name, which call of that name in the whole process)."""
    everything = [m[1] for line in log.read_text().splitlines() if (m := re.match(r"\d+\s+(\w+)\(", line))]
    inside = calls_since_mark(log)
    found = []
    for name in CALLS.split(","):
        total, own = everything.count(name), inside.count(name)
        found += [(name, number) for number in range(total - own + 1, total + 1)]
    return found
