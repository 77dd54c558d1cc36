"""How much memory a call takes at most, as the system counts it."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMES, BASE, A_TOKEN = 2, 48 * 2**20, 1024
"""What opening a stranger's directory may take: so many times the size of its files, this much, and this for each token
of the model."""
MARK = Path("/proc/self/clear_refs")
LIBC = ctypes.CDLL(None)


def measured(call: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """What a call gives, and the most that it took: pages that were resident at once, above those before.

    0 where the system does not say it: elsewhere than on Linux.
    """
    if not os.access(MARK, os.W_OK):
        return call(*arguments), 0
    LIBC.malloc_trim(0)  # free pages go back, or what a call takes of them would not be seen
    MARK.write_text("5")  # the highest mark starts anew
    before = _status("VmRSS")
    found = call(*arguments)
    return found, _status("VmHWM") - before


def allowed(path: Path, tokens: int = 0) -> int:
    """For what is at a path; of a file that has holes, only what is there."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return (
        TIMES * sum(min(file.stat().st_size, file.stat().st_blocks * 512) for file in files) + BASE + A_TOKEN * tokens
    )


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
