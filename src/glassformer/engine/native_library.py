"""The fast path's C, compiled once for this processor by the compiler that is there.

Without a compiler nothing is lost but speed: `library` is None, and torch does the work.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC")
OFF = "GLASSFORMER_COMPILER"
"""Names the C compiler to use; empty: none, and torch does the work."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled fast path; None where there is no compiler, or it cannot."""
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        return _declared(ctypes.CDLL(str(_built(compiler))))
    except (OSError, subprocess.SubprocessError):
        return None


def _compiler() -> str | None:
    wanted = os.environ.get(OFF)
    if wanted is not None:
        return shutil.which(wanted) if wanted else None
    names = ((sysconfig.get_config_var("CC") or "").split() or ["cc"])[0], "cc", "gcc", "clang"
    return next((found for found in map(shutil.which, names) if found), None)


def _built(compiler: str) -> Path:
    """The library in the user's cache, made now if it is not there."""
    native = ("-mcpu=native",) if platform.machine() in ("aarch64", "arm64") else ("-march=native",)
    command = [compiler, *FLAGS, *native]
    key = hashlib.blake2b(repr((command, _processor())).encode(), digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        key.update(source.read_bytes())
    folder = _cache()
    path = folder / f"transformer-{key.hexdigest()}.so"
    if not path.exists():
        handle, aside = tempfile.mkstemp(dir=folder, suffix=".so")  # two may compile at once: each renames its own
        os.close(handle)
        try:
            subprocess.run([*command, "-o", aside, SOURCES / "transformer.c", "-lm"], check=True, capture_output=True)
            os.replace(aside, path)
        finally:
            Path(aside).unlink(missing_ok=True)
    return path


def _cache() -> Path:
    """A folder of the user's own: nobody else may put code there."""
    base = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    folder = Path(base) / "glassformer"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = folder.stat()
        if owner.st_uid == os.getuid() and not owner.st_mode & 0o022 and os.access(folder, os.W_OK):
            return folder
    except (OSError, AttributeError):  # no such place, or a system without owners
        pass
    return Path(_of_this_process().name)


@functools.cache
def _of_this_process() -> tempfile.TemporaryDirectory[str]:
    """Where there is no cache to write to: a folder that goes with the process."""
    return tempfile.TemporaryDirectory(prefix="glassformer-")


def _processor() -> str:
    """What the compiler's `native` depends on: a cache may be shared by machines."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    for name, arguments, result in (
        ("panel_columns", [], integer),
        ("room_new", [ctypes.c_size_t], pointer),
        ("room_free", [pointer], None),
        ("batch_new", [], pointer),
        ("batch_free", [pointer], None),
        ("batch_join", [pointer, pointer, integer, pointer, pointer, pointer, integer], integer),
        ("batch_step", [pointer, pointer, pointer, integer, pointer, integer, *[pointer] * 4], integer),
        ("batch_keep", [pointer, integer, pointer], None),
        ("batch_search", [pointer, pointer, integer, *[pointer] * 4], integer),
        ("batch_advance", [pointer, pointer, pointer, integer], integer),
        ("batch_found", [pointer, integer, integer, *[pointer] * 5], integer),
    ):
        function = getattr(found, name)
        function.argtypes, function.restype = arguments, result
    return found
