"""Reader for untrusted torch.save checkpoints, without torch.load: no code in them is run.

A sandboxed subprocess interprets the pickle and describes it in JSON. Here every number of the description is checked
against the file before it is used.
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
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

import glassformer
from glassformer.errors import DirectoryError, InputError
from glassformer.interop.torch_file.pickled_names import DTYPES as DTYPE_NAMES
from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, DOWNLOAD_AGAIN, MAX_PICKLE_BYTES
from glassformer.model.saved_tensor import RAW_BYTES, SavedTensor

CHILD_CODE = (
    "import sys; sys.path.append(sys.argv.pop(1)); from glassformer.interop.torch_file import sandbox; sandbox.main()"
)
CPU_SECONDS = (2, 30)
"""Minimum and maximum processor time of the subprocess that describes a file; one second more per MiB in between."""
BUSY_MACHINE = 20
"""Seconds that may pass per second of processor time: on a busy machine the subprocess waits for a core."""
ALIGNMENT = 64
"""Byte alignment of storages in torch's zip files; unaligned storages are copied."""
MIN_VIEW_LIMIT = 2**20
"""Minimum of the limit on bytes that tensors cover by repeating elements (stride 0), however small the file."""
MAX_VIEW_FACTOR = 8
"""Maximum bytes that all tensors together cover, as a multiple of the file's size: tied weights count repeatedly."""
DTYPES = {name: np.dtype(RAW_BYTES.get(name, name)) for name in DTYPE_NAMES}
NUMPY_KINDS = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}


def _everything(key: str) -> bool:
    return True


class TorchFile(NamedTuple):
    """What a torch.save file holds, and whether the kernel filtered the system calls of the process that read it."""

    contents: dict[str, Any]
    filtered: bool


def read_torch_file(path: Path, keep: Callable[[str], bool] = _everything) -> dict[str, Any]:
    """The contents of `open_torch_file`."""
    return open_torch_file(path, keep).contents


def open_torch_file(path: Path, keep: Callable[[str], bool] = _everything) -> TorchFile:
    """Read the dict that torch.save wrote, as plain data and `SavedTensor`s; `keep` selects its top-level keys.

    Tensors are memory-mapped if torch >= 1.6 wrote the file (so it should not change while they are used; writing to
    one does not change it), and copied if an older version did. Those of one storage have one array as their base.
    Objects of other classes become dicts of their attributes, names of globals become text.
    """
    if sys.platform == "win32":
        raise InputError(
            "Files written by torch.save are read on Linux and macOS only: convert them to safetensors there."
        )
    with _opened(path) as file:
        size = os.fstat(file).st_size
        description = _describe(path, file, size)
        selected = _selected(path, description.get("top"), keep)
        try:
            memory = mmap.mmap(file, size, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise DirectoryError(f"{path} cannot be mapped into memory: {error}.") from None
    try:
        builder = _Builder(path, memory, description)
        contents = {key: builder.value(node) for key, node in selected.items()}
        return TorchFile(contents, bool(description.get("filtered")))
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
        raise DirectoryError(f"{path} is inconsistent with its own metadata: {DOWNLOAD_AGAIN}.") from None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a regular file and yield its descriptor; opening a pipe does not block."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise DirectoryError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise DirectoryError(f"{path} is not a regular file: give the path of the checkpoint.")
        if status.st_size == 0:
            raise DirectoryError(f"{path} is empty: {DOWNLOAD_AGAIN}.")
        yield file
    finally:
        os.close(file)


def _describe(path: Path, file: int, size: int) -> dict[str, Any]:
    """Have a subprocess describe the file; its refusals become errors with the same words."""
    seconds = min(CPU_SECONDS[0] + size // 2**20, CPU_SECONDS[1])
    directory = Path(glassformer.__file__).parents[1]
    command = [sys.executable, "-I", "-S", "-B", "-c", CHILD_CODE, str(directory), str(seconds)]
    try:
        with subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            output = _output(process, seconds * BUSY_MACHINE)
    except OSError as error:
        raise InputError(f"The process that reads {path} could not be started: {error}.") from None
    if process.returncode == 1:
        raise InputError(f"The process that reads {path} did not start: {sys.executable} is not a complete Python.")
    status, _, answer = output.partition(b"\n")
    try:
        description = dict(json.loads(answer))
    except (ValueError, TypeError, RecursionError):
        raise DirectoryError(
            f"{path} took more time or memory than a state dict needs: {ASK_FOR_STATE_DICT}."
        ) from None
    if "refused" in description:
        sentence = "".join(letter for letter in str(description["refused"])[:500] if letter.isprintable())
        raise DirectoryError(f"{path} {sentence}")
    return description | {"filtered": status == b"filtered"}


def _output(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """The complete output of the subprocess, empty if it exceeds the time or size limit; the process is ended."""
    end = time.monotonic() + seconds
    received = bytearray()
    assert process.stdout is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(received) <= MAX_PICKLE_BYTES and selector.select(max(end - time.monotonic(), 0)):
                chunk = os.read(process.stdout.fileno(), 2**16)
                if not chunk:
                    process.wait(max(end - time.monotonic(), 1))
                    return bytes(received)
                received += chunk
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
    return b""


def _selected(path: Path, top: Any, keep: Callable[[str], bool]) -> dict[str, Any]:
    """The descriptions under the selected top-level keys."""
    if type(top) is not list or top[:1] != ["d"] or len(top) % 2 == 0 or any(type(key) is not str for key in top[1::2]):
        raise DirectoryError(
            f"{path} does not hold a dict with string keys, as a checkpoint does: {ASK_FOR_STATE_DICT}."
        )
    return {key: node for key, node in zip(top[1::2], top[2::2], strict=True) if keep(key)}


class _Builder:
    """Builds values and tensors from a file's description. Its numbers are untrusted; each is checked where used."""

    def __init__(self, path: Path, memory: mmap.mmap, description: dict[str, Any]) -> None:
        self.path, self.memory, self.size = path, memory, len(memory)
        self.tensor_specs: list[Any] = description["tensors"]
        self.storage_specs: list[Any] = description["storages"]
        self.reverse: bool = description["reverse"]
        self.bytes_left = MAX_VIEW_FACTOR * self.size + MIN_VIEW_LIMIT
        self.tensors: dict[int, SavedTensor] = {}
        self.storages: dict[tuple[int, str], npt.NDArray[Any]] = {}
        end = 0
        for offset, count, _ in sorted(self.storage_specs, key=lambda storage: storage[:2]):
            if not _are_sizes(offset, count) or offset < end or offset + count > self.size:
                self.refuse("has a storage that lies outside the file or overlaps another one")
            end = offset + count

    def refuse(self, problem: str, way_out: str = DOWNLOAD_AGAIN) -> NoReturn:
        raise DirectoryError(f"{self.path} {problem}: {way_out}.")

    def value(self, node: Any) -> Any:
        """A value from its description: the value itself, or [kind, ...]."""
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
            "N": str,
            "b": bytes.fromhex,
            "n": self.array,
        }
        return leaves[kind](*parts)

    def tensor(self, number: int) -> SavedTensor:
        """The tensor with this number; one object however often it is mentioned."""
        if number not in self.tensors:
            self.tensors[number] = self.new_tensor(*self.tensor_specs[number])
        return self.tensors[number]

    def new_tensor(self, number: int, name: str, offset: int, shape: list[int], stride: list[int]) -> SavedTensor:
        if name not in DTYPES:
            self.refuse(f"has a tensor of unknown type {name[:100]!r}")
        dtype = DTYPES[name]
        if not _are_sizes(number, offset, *shape, *stride) or len(shape) != len(stride):
            self.refuse("has a tensor with a negative or missing size or stride")
        if prod(max(length, 1) for length in shape) > 2**62:
            self.refuse("has a tensor with more than 2**62 elements")
        last = offset + sum((length - 1) * step for length, step in zip(shape, stride, strict=True))
        if prod(shape) and (last + 1) * dtype.itemsize > self.storage_specs[number][1]:
            self.refuse("has a tensor that extends beyond its storage")
        self.charge(prod(shape) * dtype.itemsize)
        storage = self.storage(number, dtype.str if self.reverse else "")
        if not prod(shape):
            return SavedTensor(np.empty(shape, dtype), name)
        strides = [step * dtype.itemsize for step in stride]
        return SavedTensor(np.ndarray(shape, dtype, storage, offset * dtype.itemsize, strides), name)

    def whole_storage(self, number: int, name: str) -> SavedTensor:
        """A storage that was saved on its own, as a tensor."""
        return self.new_tensor(number, name, 0, [self.storage_specs[number][1] // DTYPES[name].itemsize], [1])

    def charge(self, count: int) -> None:
        """Count bytes against the limits for one tensor and for all of them."""
        self.bytes_left -= count
        if count > max(self.size, MIN_VIEW_LIMIT) or self.bytes_left < 0:
            self.refuse("has tensors that repeat its data many times", ASK_FOR_STATE_DICT)

    def storage(self, number: int, swapped: str) -> npt.NDArray[Any]:
        """The bytes of a storage, shared by its tensors. `swapped`: the type whose bytes are in reverse order."""
        if (number, swapped) not in self.storages:
            offset, count, crc = self.storage_specs[number]
            view = memoryview(self.memory)[offset : offset + count]
            if crc is not None and zlib.crc32(view) != crc:
                self.refuse("is damaged, the checksum of a tensor is wrong")
            storage = np.frombuffer(view if offset % ALIGNMENT == 0 and not swapped else bytearray(view), np.uint8)
            if swapped:
                storage.view(swapped).byteswap(inplace=True)
            self.storages[number, swapped] = storage
        return self.storages[number, swapped]

    def array(self, kind: str, shape: list[int] | None, data: str) -> Any:
        """Build a NumPy array, a NumPy scalar as a number."""
        if kind not in NUMPY_KINDS or not _are_sizes(*(shape or ())):
            self.refuse(f"has a numpy array of unknown type {kind[:100]!r}", ASK_FOR_STATE_DICT)
        numbers = np.frombuffer(bytearray.fromhex(data), np.dtype(kind).newbyteorder("<"))
        if len(numbers) != prod(shape or ()):
            self.refuse("has a numpy array whose length does not match its shape")
        return numbers[0].item() if shape is None else numbers.reshape(shape)


_CONTAINERS: dict[str, Callable[[Iterator[Any]], Any]] = {"l": list, "t": tuple, "s": set}


def _are_sizes(*numbers: Any) -> bool:
    """Whether all values are non-negative integers of 63 bits."""
    return all(type(number) is int and 0 <= number < 2**63 for number in numbers)
