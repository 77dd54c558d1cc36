"""Loads the C engine: the best library of the wheel that this processor runs, or one compiled here and cached.

Without either only speed is lost: `loaded` says so on stderr and returns None, and PyTorch runs the model.
"""

import ctypes
import functools
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from glassformer.atomic_directory import sync
from glassformer.engine.instruction_sets import (
    NATIVE,
    InstructionSet,
    built_library,
    compile_command,
    file_digest,
    instruction_sets,
    library_suffix,
    sources_digest,
)
from glassformer.engine.native_structs import check_layout
from glassformer.errors import InputError
from glassformer.extras import is_installed

ISA_VARIABLE = "GLASSFORMER_ISA"
"""Environment variable that pins one of the wheel's libraries by its instruction set; `native` compiles one here."""
COMPILER_VARIABLE = "GLASSFORMER_COMPILER"
"""Environment variable that names the C compiler; if empty, nothing is compiled."""
MAX_COMPILE_SECONDS = 300.0
"""Time limit of the compiler, which usually takes 2 to 4 seconds."""


class NativeLibrary(NamedTuple):
    """A loaded library of the C engine."""

    functions: ctypes.CDLL
    instruction_set: str
    digest: str
    """Of the library's file: equal digests give bitwise equal results."""


def library() -> ctypes.CDLL | None:
    """The functions of the C engine; None if there is none."""
    native = loaded()
    return None if native is None else native.functions


@functools.cache
def loaded() -> NativeLibrary | None:
    """Load the C engine; None, and one line on stderr says why, if there is no library and none can be compiled."""
    pinned = os.environ.get(ISA_VARIABLE, "")
    try:
        return (None if pinned == NATIVE else _load_built(pinned)) or _load_compiled(_compiler())
    except (OSError, NoEngineError) as error:
        reason = " ".join(str(error).split())[:300]
        sys.stderr.write(f"glassformer: the fast engine is not available ({reason}). {_instead()}\n")
        return None


def _instead() -> str:
    if is_installed("torch"):
        return "PyTorch runs the model instead, more slowly; results are equal up to rounding."
    return "Install a wheel that contains it, a C compiler (gcc or clang), or PyTorch, which is slower."


def runnable() -> Iterator[tuple[InstructionSet, Path]]:
    """The built libraries that this processor runs, fastest first."""
    known = instruction_sets(platform.machine())
    baseline = built_library(known[-1]) if known else None
    if baseline is None:
        return
    try:
        runs = ctypes.CDLL(str(baseline)).runs
    except (OSError, AttributeError):  # another system's, or older than the system requires
        return
    for each in known:
        if runs(each.name.encode()) and (path := built_library(each)):
            yield each, path


def _load_built(pinned: str) -> NativeLibrary | None:
    """Load the best of the built libraries, or the pinned one; None if none is built."""
    for each, path in runnable():
        if pinned in ("", each.name):
            return NativeLibrary(_declare_functions(ctypes.CDLL(str(path))), each.name, path.stem.rpartition("-")[2])
    if pinned:
        raise InputError(_cannot_pin(pinned))
    return None


def _cannot_pin(pinned: str) -> str:
    there = [each.name for each in instruction_sets(platform.machine()) if built_library(each)]
    if not there:
        return (
            f"{ISA_VARIABLE} is {pinned}, but there is no library of the installed C sources: install a wheel, "
            f"repeat `pip install -e .`, or set {ISA_VARIABLE}={NATIVE} to compile for this processor."
        )
    runs = ", ".join(each.name for each, _ in runnable()) or "none of them"
    return (
        f"{ISA_VARIABLE} is {pinned}, but the installed libraries are {', '.join(there)}, and this processor runs "
        f"{runs}: set it to one that it runs, or to {NATIVE} to compile for this processor."
    )


class NoEngineError(Exception):
    """The reason why there is no compiled engine."""


def _load_compiled(compiler: str) -> NativeLibrary:
    """Load the cached library, or a new one where that is not what was compiled."""
    path = _compiled(compiler)
    try:
        return NativeLibrary(_declare_functions(ctypes.CDLL(str(path))), NATIVE, file_digest(path))
    except (OSError, AttributeError):
        path.unlink(missing_ok=True)
    path = _compiled(compiler)
    try:
        return NativeLibrary(_declare_functions(ctypes.CDLL(str(path))), NATIVE, file_digest(path))
    except AttributeError as error:
        raise NoEngineError(f"{compiler} made a library without its functions: {error}") from None


def _compiler() -> str:
    configured = os.environ.get(COMPILER_VARIABLE)
    if configured == "":
        raise NoEngineError(f"{COMPILER_VARIABLE} is empty")
    if configured is not None:
        path = shutil.which(configured)
        if path is None:
            raise NoEngineError(f"{COMPILER_VARIABLE} is {configured}, and there is no such command")
        return path
    names = ((sysconfig.get_config_var("CC") or "").split() or ["cc"])[0], "cc", "gcc", "clang"
    path = next((path for path in map(shutil.which, names) if path), None)
    if path is None:
        raise NoEngineError("there is no C compiler: install gcc or clang")
    return path


def _compiled(compiler: str) -> Path:
    """Path of the C engine's library in the user's cache, compiled first if it is not there.

    Its name ends with the digest of its contents: a file that was cut off, replaced or damaged is not loaded (the
    process would be killed), but compiled again.
    """
    native = ("-mcpu=native",) if platform.machine() in ("aarch64", "arm64") else ("-march=native",)
    directory, suffix = _cache_directory(), library_suffix()
    stem = f"transformer-{sources_digest(compiler, native, _processor())}-"
    for path in sorted(directory.glob(f"{stem}*{suffix}")):
        if _is_ours(path) and path.name == f"{stem}{file_digest(path)}{suffix}":
            return path
        with suppress(OSError):
            path.unlink()
    # Two processes may compile at the same time: each renames its own file.
    handle, name = tempfile.mkstemp(dir=directory, suffix=suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        _run_compiler([compiler, *compile_command(native, temporary)])
        temporary.chmod(0o600)  # the linker sets it by the umask, which may let others write
        path = directory / f"{stem}{file_digest(temporary)}{suffix}"
        sync(temporary)  # before the rename: after a power cut the name must not be there without the contents
        os.replace(temporary, path)
        sync(directory)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _run_compiler(command: list[str]) -> None:
    """Run the compiler within the time limit; it and the processes it started are killed after that."""
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, start_new_session=True
        )
        try:
            status = process.wait(MAX_COMPILE_SECONDS)
        except subprocess.TimeoutExpired:
            raise NoEngineError(f"{command[0]} did not finish within {MAX_COMPILE_SECONDS:g} seconds") from None
        finally:
            if process.poll() is None:
                _kill(process)
        if status:
            messages.seek(0)
            lines = messages.read(10_000).decode(errors="replace").splitlines()
            reason = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
            raise NoEngineError(f"{command[0]} failed with status {status}: {reason}")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the compiler and, where there are process groups, the processes that it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_ours(path: Path) -> bool:
    """Whether this is a regular file that only this user could have written."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and _only_user_writes(status)


def _only_user_writes(status: os.stat_result) -> bool:
    """Whether only this user can write to it. Windows keeps others out of a user's profile by itself."""
    return sys.platform == "win32" or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _cache_directory() -> Path:
    """Cache directory that only this user can write to, so that nobody else can put code there."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache"))
        directory = base / "glassformer"
        if base.is_absolute():
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _only_user_writes(directory.stat()) and os.access(directory, os.W_OK):
                return directory
    except (OSError, RuntimeError):  # it cannot be created; no home directory
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
        ("multiplies_bfloat16", [], integer),
        ("layout", [integer], integer),
        ("memory_new", [ctypes.c_size_t], pointer),
        ("memory_free", [pointer], None),
        ("batch_new", [], pointer),
        ("batch_free", [pointer], None),
        ("batch_join", [pointer, pointer, integer, pointer, pointer, pointer, integer], integer),
        ("batch_restrict", [pointer, pointer, integer, pointer, pointer], integer),
        ("batch_step", [pointer, pointer, integer, pointer, pointer, integer, *[pointer] * 4], integer),
        ("batch_keep", [pointer, integer, pointer], integer),
        ("batch_search", [pointer, pointer, integer, *[pointer] * 4], integer),
        ("batch_advance", [pointer, pointer, pointer, integer], integer),
        ("batch_found", [pointer, integer, ctypes.c_ssize_t, *[pointer] * 5], integer),
        ("batch_record", [pointer, integer, *[pointer] * 2], integer),
        ("batch_attention", [pointer, integer, integer, pointer], None),
        ("batch_score", [pointer, pointer, integer, *[pointer] * 4], integer),
    ):
        function = getattr(native, name)
        function.argtypes, function.restype = arguments, result
    check_layout(native)
    return native
