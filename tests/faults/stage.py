"""Scenario process: runs a test module's scenario repeatedly. `python -m tests.faults.stage MODULE`.

Everything is imported once. For each request it forks; the child calls the module's `before(path)`, waits until strace
is attached, and calls `act(path)`.

Requests are lines "path<tab>file for errors" on stdin; stdout gets the child's process id, and then its exit code.
"""

import ctypes
import importlib
import os
import sys
import traceback
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn

from glassformer.errors import GlassformerError

PR_SET_PTRACER, ANY_PROCESS = 0x59616D61, -1  # for systems where by default only a parent may trace


def main(module: str) -> None:
    scenario, requests = importlib.import_module(module), FileIO(0)
    while line := requests.readline():
        path, errors = line.decode().rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            run(scenario, Path(path), Path(errors), requests)
        _, status = os.waitpid(child, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def run(scenario: Any, path: Path, errors: Path, requests: FileIO) -> NoReturn:
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    exit_code = 2
    try:
        scenario.before(path)
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY_PROCESS, 0, 0, 0)
        os.write(1, f"{os.getpid()}\n".encode())
        requests.read(1)  # sent once strace is attached
        scenario.act(path)
        exit_code = 0
    except GlassformerError as error:
        exit_code = 1
        sys.stderr.write(f"glassformer: {error}\n")
    except BaseException:
        traceback.print_exc()
    os._exit(exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
