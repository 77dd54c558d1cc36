"""Other systems: what only Linux has is hidden, and everything works another way or is refused in one sentence.

The interpreter and the packages of others stay Linux's; only this project's code sees the other system.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.examples import cases
from tests.processes import ROOT, run_fresh
from tests.small_translator import saved

HIDE = """
    import asyncio, builtins, io, mmap, multiprocessing, os, shutil, signal, socket, subprocess, sys, tempfile
    import numpy, pydantic, rich, sacrebleu, safetensors.torch, sentencepiece, torch, typer
    import torch.distributed, uvicorn, fastapi, uuid, venv, webbrowser
    from pathlib import Path
    system, directory = sys.argv[1:3]
    POSIX = "getuid geteuid getgid killpg pread pwrite sysconf getpriority setpriority setsid O_NONBLOCK O_CLOEXEC fork"
    LINUX = "sched_getaffinity memfd_create"
    real_open, real_io_open = builtins.open, io.open
    def without_proc(path, *arguments, **options):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real_io_open(path, *arguments, **options)
    def hide():
        sys.platform = system
        __import__("ctypes").CDLL = NoLibc
        builtins.open = io.open = without_proc
        for name in LINUX.split() + (POSIX.split() if system == "win32" else []):
            delattr(os, name)
        for name in ["pwd", "grp", "termios"] + (["fcntl", "resource"] if system == "win32" else []):
            sys.modules[name] = None
        if system == "win32":
            del signal.SIGKILL
            subprocess.Popen.kill = subprocess.Popen.terminate  # as on Windows
    class NoLibc(__import__("ctypes").CDLL):
        def __init__(self, name, *arguments, **options):
            if not (name and "/" in name):
                raise OSError(f"{name} exists on Linux only")
            super().__init__(name, *arguments, **options)
"""
SYSTEMS = cases("win32", more=["darwin"])


@pytest.mark.parametrize("system", SYSTEMS)
def test_translating_works(system, tmp_path):
    """With a library in C, built as for that system."""
    pytest.importorskip("hatch_build")
    done = run_fresh(
        HIDE
        + """
    import hatch_build
    quick = ("-std=gnu11", "-O1", "-shared", "-fPIC")
    hatch_build.sets.FLAGS = quick
    hatch_build.sets.PLATFORM_FLAGS = {}
    compiler = hatch_build.find_compiler()
    if not compiler:
        print("no compiler")
        raise SystemExit
    machine = hatch_build.target_of(compiler).machine
    [*_, baseline] = wanted = hatch_build.sets.instruction_sets(machine)
    hatch_build.sets.instruction_sets = lambda machine: [baseline]
    assert hatch_build.build(compiler, hatch_build.Target(machine, system), Path(directory))
    hide()
    from glassformer.engine import describe_engine, instruction_sets
    instruction_sets.FLAGS, instruction_sets.BUILT = quick, Path(directory)
    os.environ["GLASSFORMER_ISA"] = baseline.name
    import glassformer
    translator = glassformer.load("street")
    described = describe_engine(translator.engine)
    assert (described.engine, described.instruction_set) == ("fast", baseline.name), described
    print(translator("The dog was too tired."))
    """,
        system,
        str(tmp_path),
    )
    assert done.startswith(("Der Hund", "no compiler"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_engine_is_compiled_and_cached(system, tmp_path):
    """And a compiler that hangs is killed."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexec sleep 1000\n")
    compiler.chmod(0o700)
    said = run_fresh(
        HIDE
        + """
    hide()
    shutil.which = lambda name: name if "/" in name else f"/usr/bin/{name}"  # Windows adds .exe
    from glassformer.engine import instruction_sets, native_library
    instruction_sets.FLAGS = ("-std=gnu11", "-O0", "-shared", "-fPIC")
    instruction_sets.PLATFORM_FLAGS = {}
    os.environ |= {"XDG_CACHE_HOME": directory, "GLASSFORMER_ISA": "native", "GLASSFORMER_COMPILER": "cc"}
    load = native_library.loaded.__wrapped__
    sys.stderr = sys.stdout
    names = {loaded and loaded.functions._name for loaded in (load(), load())}
    assert len(names) == 1
    print({name and Path(name).suffix for name in names})
    native_library.MAX_COMPILE_SECONDS = 0.3
    os.environ |= {"GLASSFORMER_COMPILER": directory + "/cc"}
    instruction_sets.FLAGS = ()  # another library
    assert load() is None
    """,
        system,
        str(tmp_path),
    )
    *_, suffixes, refusal = said.splitlines()
    assert suffixes == str({{"win32": ".dll", "darwin": ".dylib"}[system]}) or shutil.which("cc") is None
    assert "did not finish within 0.3 seconds" in refusal


@pytest.mark.parametrize("system", SYSTEMS)
def test_training_and_memory(system, tmp_path):
    """A run's directory is locked, memory is measured, and directories are written atomically."""
    saved(tmp_path / "model")
    run_fresh(
        HIDE
        + """
    hide()
    locked = []
    class msvcrt:
        LK_NBLCK = 2
        def locking(file, mode, count):
            if locked:
                raise PermissionError(13, "Permission denied")
            locked.append(file)
    if system == "win32":
        import ctypes
        sys.modules["msvcrt"] = msvcrt
        class kernel32:
            class GetCurrentProcess:
                def __new__(cls): return 1
            class K32GetProcessMemoryInfo:
                def __new__(cls, process, counters, size):
                    assert size == 72
                    counters[1] = 123 << 20
            def GlobalMemoryStatusEx(status):
                assert status[0] == 64
                status[1] = 8 << 30
        ctypes.windll = type("windll", (), {"kernel32": kernel32})
    from glassformer import hardware
    from glassformer.errors import DirectoryError
    from glassformer.training import distributed, run_resources, run_setup
    from glassformer.model import load_model, save_model
    assert hardware.cores() >= 1
    assert hardware.peak_memory() == 123 << 20 or system != "win32"
    assert hardware.peak_memory() > 0
    assert hardware.total_memory() >= 2**28
    assert run_resources.choose_ranks(10**6) >= 1
    run_resources.keep_memory()
    hardware.lower_thread_priority()
    directory = Path(directory)
    with run_setup._locked(directory / "run"):
        try:
            with run_setup._locked(directory / "run"):
                raise SystemExit("locked twice")
        except DirectoryError as error:
            assert "is being trained by another process" in str(error), error
    model = load_model(directory / "model")
    save_model(model, directory / "copy")
    from glassformer.atomic_directory import verify
    assert verify(directory / "copy")
    """,
        system,
        str(tmp_path),
    )


def test_reading_files_of_others(tmp_path):
    """An .npz is read without `os.pread`; what torch.save wrote is refused on Windows in one sentence."""
    run_fresh(
        HIDE
        + """
    arrays = {"one": numpy.arange(6, dtype="float32").reshape(2, 3), "two": numpy.ones(1, "int8")}
    numpy.savez(directory + "/model.npz", **arrays)
    torch.save({"weight": torch.ones(2)}, directory + "/model.pt")
    hide()
    from glassformer.errors import InputError
    from glassformer.interop.marian.npz import read_npz
    from glassformer.interop.torch_file.torch_file_reader import read_torch_file
    path = Path(directory) / "model.npz"
    assert set(read_npz(path, numpy.fromfile(path, "uint8"))) == {"one", "two"}
    try:
        read_torch_file(Path(directory) / "model.pt")
        raise SystemExit("read")
    except InputError as error:
        assert "on Linux and macOS only" in str(error) and "\\n" not in str(error)
    """,
        "win32",
        str(tmp_path),
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_server_listens(system):
    """Two servers cannot have one port, and the limits of open files are kept where there are any."""
    run_fresh(
        HIDE
        + """
    hide()
    from glassformer.errors import InputError
    from glassformer.server.limits import Limits
    from glassformer.server.uvicorn_server import bind, limit_to_open_files
    assert limit_to_open_files(Limits()).connections >= 1
    bound = bind("127.0.0.1", 0)
    bound.listen()
    try:
        bind("127.0.0.1", bound.getsockname()[1])
        raise SystemExit("two servers")
    except InputError as error:
        assert "is not available" in str(error), error
    bound.close()
    """,
        system,
        "",
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_helper_of_training_ends_with_its_parent():
    """Where the kernel does not see to it, the helper's standard input ends with its parent."""
    helper = (
        "import sys, time; sys.platform = 'other'; from glassformer.training import distributed; "
        "distributed._end_with_parent(); print('ready', flush=True); time.sleep(1000)"
    )
    parent = (
        "import subprocess, sys, time; "
        f"child = subprocess.Popen([sys.executable, '-c', {helper!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE); "
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 120
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/status")
    return not (status.exists() and "zombie" in status.read_text())
