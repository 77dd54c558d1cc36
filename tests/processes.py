"""The command, and Python code, as a user runs them: in a process of its own, without checked annotations.

A process that has imported everything already forks one for each call, which saves two seconds of importing torch.
Where it matters what is imported, `fresh=True` and `run_fresh` start one from nothing, as a shell does.
"""

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
SECONDS = 300
"""Until a process that does not end is ended: only a fault takes that long."""


def glassformer(
    *arguments: object, stdin: bytes = b"", cwd: Path = ROOT, fresh: bool = False
) -> "subprocess.CompletedProcess[str]":
    """The command, and what it wrote."""
    given = [str(argument) for argument in arguments]
    if fresh:
        done = subprocess.run([COMMAND, *given], input=stdin, capture_output=True, timeout=SECONDS, cwd=cwd)
    else:
        done = _forked(_run_command, given, stdin, cwd)
    return subprocess.CompletedProcess(given, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_plainly(code: str, *arguments: str) -> str:
    """What the code prints, run without checked annotations and with warnings as errors; its failure is the test's."""
    return _printed(_forked(_run_code, [textwrap.dedent(code), *arguments], b"", ROOT))


def run_fresh(code: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    """The same in a fresh interpreter, where nothing is imported."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    return _printed(subprocess.run(command, capture_output=True, timeout=SECONDS, cwd=ROOT, env=env))


def forking() -> Any:
    """Processes of multiprocessing that are forked from one that has imported everything, and no test."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    return context


def _printed(done: "subprocess.CompletedProcess[bytes]") -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def _forked(target: Any, arguments: list[str], stdin: bytes, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    with tempfile.TemporaryDirectory() as passing:
        files = [Path(passing) / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_bytes(stdin)
        process = forking().Process(target=_play, args=(target, arguments, [str(file) for file in files], str(cwd)))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, SECONDS)
        return subprocess.CompletedProcess(arguments, process.exitcode, files[1].read_bytes(), files[2].read_bytes())


def _play(target: Any, arguments: list[str], files: list[str], cwd: str) -> None:
    """In the forked process: its own files and folder, then the work."""
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
