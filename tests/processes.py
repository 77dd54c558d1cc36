"""Runs the command line and Python code as a user does: in a separate process, without shape checks.

Each call is forked from a process that has already imported everything, which saves two seconds of importing torch.
Where it matters what is imported, `fresh=True` and `run_fresh` start a new interpreter, as a shell does.
"""

import importlib.util
import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("glassformer")
TIMEOUT_SECONDS = 300
"""After this a process is killed: only a hanging one takes that long."""


def glassformer(
    *arguments: object, stdin: bytes = b"", cwd: Path = ROOT, fresh: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run the `glassformer` command; the result has its output as text."""
    argv = [str(argument) for argument in arguments]
    if fresh:
        done = subprocess.run([COMMAND, *argv], input=stdin, capture_output=True, timeout=TIMEOUT_SECONDS, cwd=cwd)
    else:
        done = _forked(_run_command, argv, stdin, cwd)
    return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_plainly(code: str, *arguments: str) -> str:
    """What the code prints, run without shape checks and with warnings as errors; if it fails, so does the test."""
    return _printed(_forked(_run_code, [textwrap.dedent(code), *arguments], b"", ROOT))


def load_script(path: str) -> Any:
    """A script of docs/ or tools/ as a module, without running it."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_fresh(code: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    """The same in a new interpreter, where nothing is imported."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    return _printed(subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, cwd=ROOT, env=env))


def forking() -> Any:
    """A multiprocessing context whose processes are forked from one that has imported everything except tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    return context


def _printed(done: "subprocess.CompletedProcess[bytes]") -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def _forked(target: Any, arguments: list[str], stdin: bytes, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_bytes(stdin)
        process = forking().Process(target=_child, args=(target, arguments, [str(file) for file in files], str(cwd)))
        process.start()
        process.join(TIMEOUT_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, TIMEOUT_SECONDS)
        return subprocess.CompletedProcess(arguments, process.exitcode, files[1].read_bytes(), files[2].read_bytes())


def _child(target: Any, arguments: list[str], files: list[str], cwd: str) -> None:
    """In the forked process: redirect the standard streams, change the directory, call `target`."""
    for number, (path, flags) in enumerate(zip(files, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        os.dup2(os.open(path, flags), number)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), "utf-8", "backslashreplace", line_buffering=True)  # noqa: SIM115
    os.chdir(cwd)
    target(*arguments)


def _run_command(*arguments: str) -> None:
    from glassformer.cli import main

    sys.argv = ["glassformer", *arguments]
    main()


def _run_code(code: str, *arguments: str) -> None:
    sys.argv = ["-c", *arguments]
    warnings.simplefilter("error")
    exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
