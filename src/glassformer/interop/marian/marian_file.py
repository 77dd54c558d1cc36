"""Marian's model files, .npz and .bin, as tensors by name. Knows nothing of what the tensors are for.

Names, counts, shapes and sizes are held against the size of the file before anything is made from them.
"""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import DirectoryError
from glassformer.interop.marian.marian_text import read_options
from glassformer.interop.marian.npz import MOST_ARRAYS, MOST_AXES, Bytes, Stored, read_npz

OPTIONS = "special:model.yml"
ALPHA = "_QuantMultA"
LONGEST_NAME = 1000


@dataclass(frozen=True)
class MarianFile:
    """What such a file holds."""

    tensors: dict[str, Tensor]
    """The weights, float32, as Marian lays them out: matrices are [in, out]. Some are mapped from the file."""
    options: dict[str, Any]
    """How the model was configured: `special:model.yml`."""
    alphas: dict[str, float]
    """What Marian multiplies the inputs of a matrix with before it rounds them; beside the weights in some files."""


def read_marian_file(path: Path) -> MarianFile:
    """The content of a Marian model, whichever of the two formats it has."""
    content = _mapped(path)
    begin = content[:8].tobytes()
    if begin[:2] == b"\x1f\x8b":
        raise DirectoryError(f"{path} is compressed: `gunzip` it first.")
    stored = read_npz(path, content) if begin[:2] == b"PK" else _read_bin(path, content)
    if OPTIONS not in stored:
        raise DirectoryError(f"{path} is no whole Marian model: it holds no {OPTIONS}, which says how it is built.")
    options = stored.pop(OPTIONS)
    if options.kind not in ("int8", "uint8"):
        raise DirectoryError(f"{path} holds its {OPTIONS} as {options.kind} instead of text.")
    text = options.data[: math.prod(options.shape)]
    tensors = {name: _floats(path, name, one) for name, one in stored.items()}
    alphas = {name: tensors.pop(name) for name in list(tensors) if name.endswith(ALPHA)}
    return MarianFile(
        tensors,
        read_options(text.tobytes(), f"{path} ({OPTIONS})"),
        {name.removesuffix(ALPHA): float(tensor.reshape(-1)[0]) for name, tensor in alphas.items()},
    )


def is_marian_file(path: Path) -> bool:
    """Whether a file is called and begins like one: other things end in .npz and .bin too."""
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError:
        return False
    return {".npz": begin[:4] == b"PK\x03\x04", ".bin": begin == (1).to_bytes(8, "little")}.get(path.suffix, False)


class _Kind(NamedTuple):
    numbers: np.dtype[Any]
    in_steps: bool = False
    """Whole steps, and behind them a float32: how many steps make 1."""


KINDS = {
    "int8": _Kind(np.dtype("i1")),
    "uint8": _Kind(np.dtype("u1")),
    "float16": _Kind(np.dtype("<f2")),
    "float32": _Kind(np.dtype("<f4")),
    "float64": _Kind(np.dtype("<f8")),
    "intgemm8": _Kind(np.dtype("i1"), in_steps=True),
    "intgemm16": _Kind(np.dtype("<i2"), in_steps=True),
}
CODES = {
    0x101: "int8",
    0x201: "uint8",
    0x402: "float16",
    0x404: "float32",
    0x408: "float64",
    0x4101: "intgemm8",  # as the students' Marian numbers it
    0x4102: "intgemm16",
    0x10001: "intgemm8",  # as Marian itself does
    0x10002: "intgemm16",
}
"""Types in a .bin. The others are laid out for one kind of processor (packed8avx2, intgemm8avx512, ...)."""


def _mapped(path: Path) -> Bytes:
    """The bytes of a file; what is not looked at is not read."""
    try:
        if not path.is_file():
            raise DirectoryError(f"There is no file {path}.")
        if path.stat().st_size < 16:
            raise DirectoryError(f"{path} has {path.stat().st_size} bytes, too few for a Marian model.")
        return np.memmap(path, dtype=np.uint8, mode="c")  # of one's own: a tensor may be written to, the file not
    except (OSError, ValueError) as error:
        raise DirectoryError(f"{path} cannot be read: {error}.") from None


def _floats(path: Path, name: str, stored: Stored) -> Tensor:
    """The numbers of a tensor; float32 that lies well is not copied."""
    kind, count = KINDS[stored.kind], math.prod(stored.shape)
    size = count * kind.numbers.itemsize
    numbers = stored.data[:size].view(kind.numbers)
    if kind.in_steps:
        (steps_in_one,) = stored.data[size : size + 4].view("<f4").tolist()
        if not (2.0**-126 <= steps_in_one < math.inf and len(stored.shape) == 2):
            raise DirectoryError(
                f"{path} is damaged: {name} is of shape {list(stored.shape)} and has {steps_in_one} steps in 1."
            )
        found = torch.from_numpy(numbers.astype(np.float32))
        found *= float(np.float32(1) / np.float32(steps_in_one))  # so does Marian, to the bit
        # Matrices are kept as their product wants them, [out, in]; what is looked up in, as it is.
        return found.reshape(stored.shape) if "Wemb" in name else found.reshape(stored.shape[::-1]).T
    if kind.numbers.kind != "f":
        raise DirectoryError(f"{path} holds {name} as {stored.kind}, and weights are not made of those.")
    found = torch.from_numpy(np.require(numbers, np.float32, ["A", "W"]))
    return found.reshape(stored.shape[::-1]).T if stored.columns_first else found.reshape(stored.shape)


class _Reader:
    """Goes through a file from its beginning, and never past its end."""

    def __init__(self, path: Path, content: Bytes) -> None:
        self.path, self.content, self.at = path, content, 0

    def take(self, size: int, what: str) -> Bytes:
        if size > len(self.content) - self.at:
            raise DirectoryError(
                f"{self.path} is damaged or cut off: {what} should take {size:,} bytes from byte {self.at:,} on, "
                f"and the file has {len(self.content):,}."
            )
        self.at += size
        return self.content[self.at - size : self.at]

    def numbers(self, kind: str, count: int, what: str) -> list[int]:
        return self.take(count * np.dtype(kind).itemsize, what).view(kind).tolist()


def _read_bin(path: Path, content: Bytes) -> dict[str, Stored]:
    """Version and count; for each tensor four numbers; names; shapes; padding; the numbers of each tensor."""
    reader = _Reader(path, content)
    version, count = reader.numbers("<u8", 2, "the beginning")
    if version != 1:
        raise DirectoryError(f"{path} is no Marian model: it is neither a zip (.npz) nor a .bin of version 1.")
    if count > MOST_ARRAYS:
        raise DirectoryError(f"{path} is damaged: {count:,} tensors are more than any model has.")
    heads = np.array(reader.numbers("<u8", 4 * count, "the table of tensors"), dtype=object).reshape(count, 4).tolist()
    names = [_name(path, reader.take(length, "a name"), length) for length, _, _, _ in heads]
    if len(set(names)) < len(names):
        raise DirectoryError(f"{path} is damaged: it holds {Counter(names).most_common(1)[0][0]!r} twice.")
    shapes = []
    for name, (_, _, axes, _) in zip(names, heads, strict=True):
        lengths = reader.numbers("<i4", min(axes, MOST_AXES), f"the shape of {name}")
        if not 1 <= axes <= MOST_AXES or min(lengths) < 1:
            raise DirectoryError(f"{path} is damaged: {name} has {axes} axes of the lengths {lengths}.")
        shapes.append(tuple(lengths))
    (padding,) = reader.numbers("<u8", 1, "the length of the padding")
    reader.take(padding, "the padding")
    found = {}
    for name, shape, (_, code, _, size) in zip(names, shapes, heads, strict=True):
        if code not in CODES:
            raise DirectoryError(
                f"{path} holds {name} as type {code:#x}, which is not known or made for one processor: "
                "convert the model's .npz with `marian-conv --gemm-type intgemm8`, or open the .npz."
            )
        kind = KINDS[CODES[code]]
        needed = math.prod(shape) * kind.numbers.itemsize + 4 * kind.in_steps
        if needed > size:
            raise DirectoryError(
                f"{path} is damaged: {name} needs {needed:,} bytes, and {size:,} are said to be there."
            )
        found[name] = Stored(CODES[code], shape, reader.take(size, name))
    if reader.at < len(content):
        raise DirectoryError(f"{path} is damaged: its last tensor ends at byte {reader.at:,} of {len(content):,}.")
    return found


def _name(path: Path, raw: Bytes, length: int) -> str:
    if not 2 <= length <= LONGEST_NAME or raw[-1] != 0:
        raise DirectoryError(f"{path} is damaged: the name of a tensor has {length} bytes, or does not end.")
    try:
        return raw[:-1].tobytes().decode()
    except UnicodeDecodeError:
        raise DirectoryError(f"{path} is damaged: {raw.tobytes()!r} is no tensor's name.") from None
