"""Peak memory of a call, as the system counts it."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMES, BASE, BYTES_PER_TOKEN = 2, 48 * 2**20, 1024
"""Memory limit for opening an untrusted directory: this multiple of the size of its files, a constant, and bytes per
token of the model."""
MARK = Path("/proc/self/clear_refs")
LIBC = ctypes.CDLL(None)


def measured(call: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """The result of a call and its peak memory: resident pages above those before the call.

    0 on systems that do not report it (other than Linux).
    """
    if not os.access(MARK, os.W_OK):
        return call(*arguments), 0
    LIBC.malloc_trim(0)  # return free pages, or their reuse would not be measured
    MARK.write_text("5")  # reset the peak
    before = _status("VmRSS")
    result = call(*arguments)
    return result, _status("VmHWM") - before


def allowed(path: Path, tokens: int = 0) -> int:
    """The limit for the files at a path; of a sparse file, only allocated blocks count."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return (
        TIMES * sum(min(file.stat().st_size, file.stat().st_blocks * 512) for file in files)
        + BASE
        + BYTES_PER_TOKEN * tokens
    )


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
