"""Compiles the C engine for this processor on first use, caches the library, and loads it.

Without a compiler only speed is lost: `library` returns None, and PyTorch runs the model.
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

from glassformer.engine.native_structs import check_layout

SOURCES = Path(__file__).parent / "native"
FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC")
COMPILER_VARIABLE = "GLASSFORMER_COMPILER"
"""Environment variable that names the C compiler; if empty, none is used and PyTorch runs the model."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the compiled C engine; None if there is no compiler or compilation fails."""
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        return _declare_functions(ctypes.CDLL(str(_compiled(compiler))))
    except (OSError, subprocess.SubprocessError):
        return None


def _compiler() -> str | None:
    configured = os.environ.get(COMPILER_VARIABLE)
    if configured is not None:
        return shutil.which(configured) if configured else None
    names = ((sysconfig.get_config_var("CC") or "").split() or ["cc"])[0], "cc", "gcc", "clang"
    return next((path for path in map(shutil.which, names) if path), None)


def _compiled(compiler: str) -> Path:
    """Path of the C engine's library in the user's cache, compiled first if it is not there."""
    native = ("-mcpu=native",) if platform.machine() in ("aarch64", "arm64") else ("-march=native",)
    command = [compiler, *FLAGS, *native]
    key = hashlib.blake2b(repr((command, _processor())).encode(), digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        key.update(source.read_bytes())
    directory = _cache_directory()
    path = directory / f"transformer-{key.hexdigest()}.so"
    if not path.exists():
        # Two processes may compile at the same time: each renames its own file.
        handle, temporary = tempfile.mkstemp(dir=directory, suffix=".so")
        os.close(handle)
        try:
            subprocess.run(
                [*command, "-o", temporary, SOURCES / "transformer.c", "-lm"], check=True, capture_output=True
            )
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    return path


def _cache_directory() -> Path:
    """Cache directory that only this user can write to, so that nobody else can put code there."""
    base = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache")
    directory = Path(base) / "glassformer"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = directory.stat()
        if status.st_uid == os.getuid() and not status.st_mode & 0o022 and os.access(directory, os.W_OK):
            return directory
    except (OSError, AttributeError):  # it cannot be created, or the system has no file owners
        pass
    return Path(_temporary_directory().name)


@functools.cache
def _temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory that is deleted when the process ends, for systems without a writable cache."""
    return tempfile.TemporaryDirectory(prefix="glassformer-")


def _processor() -> str:
    """The processor features that the compiler's `native` depends on: machines may share a cache."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def _declare_functions(native: ctypes.CDLL) -> ctypes.CDLL:
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    for name, arguments, result in (
        ("panel_columns", [], integer),
        ("layout", [integer], integer),
        ("memory_new", [ctypes.c_size_t], pointer),
        ("memory_free", [pointer], None),
        ("batch_new", [], pointer),
        ("batch_free", [pointer], None),
        ("batch_join", [pointer, pointer, integer, pointer, pointer, pointer, integer], integer),
        ("batch_step", [pointer, pointer, pointer, integer, pointer, integer, *[pointer] * 4], integer),
        ("batch_keep", [pointer, integer, pointer], None),
        ("batch_search", [pointer, pointer, integer, *[pointer] * 4], integer),
        ("batch_advance", [pointer, pointer, pointer, integer], integer),
        ("batch_found", [pointer, integer, integer, *[pointer] * 5], integer),
    ):
        function = getattr(native, name)
        function.argtypes, function.restype = arguments, result
    check_layout(native)
    return native
