"""Checkpoints of torch.save from anywhere, read without torch.load: nothing that is in them runs.

`torch_pickle` reads the pickle in a process of its own, which may do nothing but answer, and describes it in JSON. Here
every number of the answer is held against the file before memory is touched.
"""

import json
import mmap
import os
import selectors
import stat
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import DirectoryError, InputError
from glassformer.interop import torch_pickle
from glassformer.interop.torch_pickle import AGAIN, ALONE, PICKLE_LIMIT

START = "import sys; sys.path.append(sys.argv.pop(1)); import torch_pickle; torch_pickle.main()"
SECONDS = (2, 30)
"""For the description of a small file, and of the largest; one more for each MiB in between."""
ALIGNMENT = 64
"""Where torch begins a storage in a zip file; one that begins elsewhere is copied."""
ROOM = 2**20
"""Bytes that small files may spread over with tensors that repeat their numbers (stride 0)."""
VIEWS = 8
"""How often all tensors together may show the bytes of the file: tied weights show some several times."""
DTYPES = {name: getattr(torch, name) for name in torch_pickle.DTYPES}
NUMPY_KINDS = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}


def _everything(key: str) -> bool:
    return True


def read_torch_file(path: Path, keep: Callable[[str], bool] = _everything) -> dict[str, Any]:
    """The dict that torch.save wrote, as plain data and tensors; of its own keys, those that `keep` wants.

    Tensors are mapped from the file where torch >= 1.6 wrote it (so the file should stay as it is while they are used;
    writing to a tensor does not change it), and copied where an older one did. They are plain tensors on the CPU, also
    where parameters were saved. numpy's arrays become tensors; objects of other classes, dicts of their attributes.
    """
    if sys.platform == "win32":
        raise InputError("Files of torch.save are read on Linux and macOS only: make them safetensors there.")
    with _opened(path) as file:
        size = os.fstat(file).st_size
        found = _described(path, file, size)
        kept = _kept(path, found.get("top"), keep)
        try:
            memory = mmap.mmap(file, size, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise DirectoryError(f"{path} cannot be mapped into memory: {error}.") from None
    try:
        parts = _Parts(path, memory, found)
        return {key: parts.value(node) for key, node in kept.items()}
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
        raise DirectoryError(f"{path} does not fit its own description: {AGAIN}.") from None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The descriptor of a regular file; a pipe in its place is not waited for."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise DirectoryError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise DirectoryError(f"{path} is not a file: give the checkpoint itself.")
        if about.st_size == 0:
            raise DirectoryError(f"{path} is empty: {AGAIN}.")
        yield file
    finally:
        os.close(file)


def _described(path: Path, file: int, size: int) -> dict[str, Any]:
    """What the process says of the file; what it refuses is refused here in its words."""
    seconds = min(SECONDS[0] + size // 2**20, SECONDS[1])
    here = Path(torch_pickle.__file__).parent
    command = [sys.executable, "-I", "-S", "-B", "-c", START, str(here), str(seconds)]
    try:
        with subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            answer = _answer(process, seconds)
    except OSError as error:
        raise InputError(f"No process to read {path} could be started: {error}.") from None
    if process.returncode == 1:
        raise InputError(f"The process to read {path} did not start: {sys.executable} is not a whole Python.")
    try:
        found = dict(json.loads(answer))
    except (ValueError, TypeError, RecursionError):
        raise DirectoryError(f"{path} took more time or memory than a state dict needs: {ALONE}.") from None
    if "refused" in found:
        sentence = "".join(letter for letter in str(found["refused"])[:500] if letter.isprintable())
        raise DirectoryError(f"{path} {sentence}")
    return found


def _answer(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """All that the process writes, if it does so in time and says no more than it may; then it is gone."""
    end = time.monotonic() + seconds
    received = bytearray()
    assert process.stdout is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(received) <= PICKLE_LIMIT and selector.select(max(end - time.monotonic(), 0)):
                piece = os.read(process.stdout.fileno(), 2**16)
                if not piece:
                    process.wait(1)
                    return bytes(received)
                received += piece
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
    return b""


def _kept(path: Path, top: Any, keep: Callable[[str], bool]) -> dict[str, Any]:
    """What the wanted keys of the whole hold, still as descriptions."""
    if type(top) is not list or top[:1] != ["d"] or len(top) % 2 == 0 or any(type(key) is not str for key in top[1::2]):
        raise DirectoryError(f"{path} does not hold a dict with names, as a checkpoint does: {ALONE}.")
    return {key: node for key, node in zip(top[1::2], top[2::2], strict=True) if keep(key)}


class _Parts:
    """What a description is made of. A number in it is a claim; each is checked where it is used."""

    def __init__(self, path: Path, memory: mmap.mmap, found: dict[str, Any]) -> None:
        self.path, self.memory, self.size = path, memory, len(memory)
        self.placed: list[Any] = found["tensors"]
        self.places: list[Any] = found["storages"]
        self.reverse: bool = found["reverse"]
        self.left = VIEWS * self.size + ROOM
        self.tensors: dict[int, Tensor] = {}
        self.storages: dict[tuple[int, torch.dtype | None], torch.UntypedStorage] = {}
        end = 0
        for place, count, _ in sorted(self.places, key=lambda storage: storage[:2]):
            if not _whole(place, count) or place < end or place + count > self.size:
                self.refuse("has a storage that lies outside of it, or in another one")
            end = place + count

    def refuse(self, found: str, way_out: str = AGAIN) -> NoReturn:
        raise DirectoryError(f"{self.path} {found}: {way_out}.")

    def value(self, node: Any) -> Any:
        """A value from its description: itself, or [kind, ...]."""
        if type(node) is not list:
            return node
        kind, *parts = node
        if kind == "d":
            items = [self.value(part) for part in parts]
            return dict(zip(items[::2], items[1::2], strict=True))
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self.value(part) for part in parts)
        leaves: dict[str, Callable[..., Any]] = {
            "T": self.tensor,
            "S": self.whole_storage,
            "N": _name,
            "b": bytes.fromhex,
            "n": self.array,
        }
        return leaves[kind](*parts)

    def tensor(self, number: int) -> Tensor:
        """Mentioned twice, it is one tensor."""
        if number not in self.tensors:
            self.tensors[number] = self.new_tensor(*self.placed[number])
        return self.tensors[number]

    def new_tensor(self, number: int, kind: str, offset: int, shape: list[int], stride: list[int]) -> Tensor:
        if kind not in DTYPES:
            self.refuse(f"has a tensor of the unknown kind {kind[:100]!r}")
        dtype = DTYPES[kind]
        if not _whole(number, offset, *shape, *stride) or len(shape) != len(stride):
            self.refuse("has a tensor with a negative or missing length")
        if prod(max(length, 1) for length in shape) > 2**62:
            self.refuse("has a tensor with more numbers than there are")
        last = offset + sum((length - 1) * step for length, step in zip(shape, stride, strict=True))
        if prod(shape) and (last + 1) * dtype.itemsize > self.places[number][1]:
            self.refuse("has a tensor that goes beyond its storage")
        self.spend(prod(shape) * dtype.itemsize)
        storage = self.storage(number, dtype if self.reverse else None)
        if not prod(shape):
            return torch.empty(shape, dtype=dtype)
        return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)

    def whole_storage(self, number: int, kind: str) -> Tensor:
        """A storage that was saved by itself."""
        return self.new_tensor(number, kind, 0, [self.places[number][1] // DTYPES[kind].itemsize], [1])

    def spend(self, count: int) -> None:
        self.left -= count
        if count > max(self.size, ROOM) or self.left < 0:
            self.refuse("has tensors that repeat its numbers many times", ALONE)

    def storage(self, number: int, turned: torch.dtype | None) -> torch.UntypedStorage:
        """Tensors that shared a storage share it here. `turned`: whose bytes lie in reverse."""
        if (number, turned) not in self.storages:
            place, count, crc = self.places[number]
            view = memoryview(self.memory)[place : place + count]
            if crc is not None and zlib.crc32(view) != crc:
                self.refuse("is damaged, the checksum of a tensor is wrong")
            data = view if place % ALIGNMENT == 0 and turned is None else bytearray(view)
            storage = torch.frombuffer(data, dtype=torch.uint8).untyped_storage() if count else torch.UntypedStorage(0)
            if turned is not None:
                storage.byteswap(turned)
            self.storages[number, turned] = storage
        return self.storages[number, turned]

    def array(self, kind: str, shape: list[int] | None, data: str) -> Any:
        """numpy's arrays as tensors, its scalars as numbers."""
        if kind not in NUMPY_KINDS or not _whole(*(shape or ())):
            self.refuse(f"has a numpy array of the unknown kind {kind[:100]!r}", ALONE)
        numbers = np.frombuffer(bytearray.fromhex(data), np.dtype(kind).newbyteorder("<"))
        if len(numbers) != prod(shape or ()):
            self.refuse("has a numpy array of another length than it says")
        return numbers[0].item() if shape is None else torch.from_numpy(numbers.reshape(shape))


_CONTAINERS: dict[str, Callable[[Iterator[Any]], Any]] = {"l": list, "t": tuple, "s": set}


def _whole(*numbers: Any) -> bool:
    return all(type(number) is int and 0 <= number < 2**63 for number in numbers)


def _name(full: str) -> Any:
    """A dtype is one again; any other name stays a name."""
    return DTYPES.get(full.removeprefix("torch."), full)
