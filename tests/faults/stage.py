"""Plays a scene again and again: `python -m tests.faults.stage MODULE`.

Everything is imported once. Each time it forks, makes ready with the module's `before(path)`, waits until it is watched
and plays `act(path)`.

Orders come in as lines "path<tab>file for errors"; out goes the process to watch, and then how it ended.
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

PR_SET_PTRACER, ANYONE = 0x59616D61, -1  # where only a parent may watch unless told otherwise


def main(module: str) -> None:
    scene, orders = importlib.import_module(module), FileIO(0)
    while line := orders.readline():
        path, errors = line.decode().rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            play(scene, Path(path), Path(errors), orders)
        _, status = os.waitpid(child, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def play(scene: Any, path: Path, errors: Path, orders: FileIO) -> NoReturn:
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    ended = 2
    try:
        scene.before(path)
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYONE, 0, 0, 0)
        os.write(1, f"{os.getpid()}\n".encode())
        orders.read(1)  # it is watched
        scene.act(path)
        ended = 0
    except GlassformerError as error:
        ended = 1
        sys.stderr.write(f"glassformer: {error}\n")
    except BaseException:
        traceback.print_exc()
    os._exit(ended)


if __name__ == "__main__":
    main(sys.argv[1])
