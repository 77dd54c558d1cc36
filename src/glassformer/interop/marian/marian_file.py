"""Reader for Marian's model files (.npz and .bin): tensors by name, without their meaning.

Names, counts, shapes and sizes are checked against the size of the file before they are used.
"""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import DirectoryError
from glassformer.interop.marian.marian_text import read_options
from glassformer.interop.marian.npz import MAX_ARRAYS, MAX_AXES, Bytes, StoredTensor, read_npz

Array = NDArray[np.float32]
OPTIONS = "special:model.yml"
INPUT_SCALE_SUFFIX = "_QuantMultA"
MAX_NAME_BYTES = 1000


@dataclass(frozen=True)
class MarianFile:
    """The content of a Marian model file."""

    tensors: dict[str, Array]
    """The weights, float32, in Marian's layout: matrices are [in, out]. Some are memory-mapped from the file."""
    options: dict[str, Any]
    """The model's configuration: `special:model.yml`."""
    input_scales: dict[str, float]
    """Per matrix, the factor that quantises its inputs in Marian; some files have it beside the weights."""


def read_marian_file(path: Path) -> MarianFile:
    """Read a Marian model file, .npz or .bin."""
    content = _mapped(path)
    begin = content[:8].tobytes()
    if begin[:2] == b"\x1f\x8b":
        raise DirectoryError(f"{path} is compressed: `gunzip` it first.")
    stored = read_npz(path, content) if begin[:2] == b"PK" else _read_bin(path, content)
    if OPTIONS not in stored:
        raise DirectoryError(f"{path} is not a complete Marian model: it lacks {OPTIONS}, its configuration.")
    options = stored.pop(OPTIONS)
    if options.kind not in ("int8", "uint8"):
        raise DirectoryError(f"{path} holds its {OPTIONS} as {options.kind} instead of text.")
    text = options.data[: math.prod(options.shape)]
    tensors = {name: _floats(path, name, tensor) for name, tensor in stored.items()}
    scale_names = [name for name in tensors if name.endswith(INPUT_SCALE_SUFFIX)]
    scales = {name.removesuffix(INPUT_SCALE_SUFFIX): float(tensors.pop(name).reshape(-1)[0]) for name in scale_names}
    return MarianFile(tensors, read_options(text.tobytes(), f"{path} ({OPTIONS})"), scales)


def is_marian_file(path: Path) -> bool:
    """Whether a file has the suffix and the first bytes of a Marian model: other files end in .npz and .bin, too."""
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError:
        return False
    return {".npz": begin[:4] == b"PK\x03\x04", ".bin": begin == (1).to_bytes(8, "little")}.get(path.suffix, False)


ELEMENTS = {"int8": "i1", "uint8": "u1", "float16": "<f2", "float32": "<f4", "float64": "<f8"}
KINDS = {kind: np.dtype(code) for kind, code in (ELEMENTS | {"intgemm8": "i1", "intgemm16": "<i2"}).items()}
QUANTISED = ("intgemm8", "intgemm16")
"""Kinds whose elements are integers, followed by a float32, the quantisation factor."""
CODES = {
    0x101: "int8",
    0x201: "uint8",
    0x402: "float16",
    0x404: "float32",
    0x408: "float64",
    0x4101: "intgemm8",  # code in the Marian of Bergamot's students
    0x4102: "intgemm16",
    0x10001: "intgemm8",  # code in Marian itself
    0x10002: "intgemm16",
}
"""Element types by their code in a .bin. Others are laid out for one processor (packed8avx2, intgemm8avx512, ...)."""


def _mapped(path: Path) -> Bytes:
    """The bytes of a file, memory-mapped."""
    try:
        if not path.is_file():
            raise DirectoryError(f"There is no file {path}.")
        if (size := path.stat().st_size) < 16:
            raise DirectoryError(f"{path} has {size} bytes, too few for a Marian model: download it again.")
        return np.memmap(path, dtype=np.uint8, mode="c")  # copy-on-write: tensors may be written to, the file is not
    except (OSError, ValueError) as error:
        raise DirectoryError(f"{path} cannot be read: {error}.") from None


def _floats(path: Path, name: str, stored: StoredTensor) -> Array:
    """The elements of a tensor as float32; aligned float32 is not copied."""
    kind, shape = KINDS[stored.kind], list(stored.shape)
    size = math.prod(shape) * kind.itemsize
    elements = stored.data[:size].view(kind)
    if stored.kind in QUANTISED:
        (factor,) = stored.data[size : size + 4].view("<f4").tolist()
        if not (2.0**-126 <= factor < math.inf and len(shape) == 2):
            raise DirectoryError(f"{path} is damaged: {name} has shape {shape} and quantisation factor {factor}.")
        values = elements.astype(np.float32)
        values *= np.float32(1) / np.float32(factor)  # bitwise as Marian does it
        # Matrices are stored as their product needs them, [out, in]; embeddings are not transposed.
        return values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T
    if kind.kind != "f":
        raise DirectoryError(f"{path} holds {name} as {stored.kind}, which is not a type of weights.")
    values = np.require(elements, np.float32, ["A"])
    return values.reshape(shape[::-1]).T if stored.column_major else values.reshape(shape)


class _Reader:
    """Sequential, bounds-checked reader of a file's bytes."""

    def __init__(self, path: Path, content: Bytes) -> None:
        self.path, self.content, self.at = path, content, 0

    def take(self, size: int, what: str) -> Bytes:
        if size > len(self.content) - self.at:
            raise DirectoryError(
                f"{self.path} is damaged or truncated: {what} should take {size:,} bytes from byte {self.at:,}, "
                f"but the file has {len(self.content):,}."
            )
        self.at += size
        return self.content[self.at - size : self.at]

    def integers(self, kind: str, count: int, what: str) -> list[int]:
        return self.take(count * np.dtype(kind).itemsize, what).view(kind).tolist()


def _read_bin(path: Path, content: Bytes) -> dict[str, StoredTensor]:
    """Parse a .bin: version and count; four integers per tensor; names; shapes; padding; the data of each tensor."""
    reader = _Reader(path, content)
    version, count = reader.integers("<u8", 2, "the header")
    if version != 1:
        raise DirectoryError(f"{path} is not a Marian model: it is neither a zip (.npz) nor a .bin of version 1.")
    if count > MAX_ARRAYS:
        raise DirectoryError(f"{path} is damaged: {count:,} tensors are more than any model has.")
    table = reader.integers("<u8", 4 * count, "the table of tensors")
    headers = [table[i : i + 4] for i in range(0, 4 * count, 4)]
    names = [_name(path, reader.take(length, "a name"), length) for length, _, _, _ in headers]
    if len(set(names)) < len(names):
        raise DirectoryError(f"{path} is damaged: it holds {Counter(names).most_common(1)[0][0]!r} twice.")
    shapes = []
    for name, (_, _, axes, _) in zip(names, headers, strict=True):
        lengths = reader.integers("<i4", min(axes, MAX_AXES), f"the shape of {name}")
        if not 1 <= axes <= MAX_AXES or min(lengths) < 1:
            raise DirectoryError(f"{path} is damaged: {name} has {axes} axes of lengths {lengths}.")
        shapes.append(tuple(lengths))
    (padding,) = reader.integers("<u8", 1, "the length of the padding")
    reader.take(padding, "the padding")
    tensors = {}
    for name, shape, (_, code, _, size) in zip(names, shapes, headers, strict=True):
        if code not in CODES:
            raise DirectoryError(
                f"{path} holds {name} as type {code:#x}, which is unknown or specific to one kind of processor: "
                "convert the model's .npz with `marian-conv --gemm-type intgemm8`, or open the .npz."
            )
        needed = math.prod(shape) * KINDS[CODES[code]].itemsize + 4 * (CODES[code] in QUANTISED)
        if needed > size:
            raise DirectoryError(f"{path} is damaged: {name} needs {needed:,} bytes, but its entry states {size:,}.")
        tensors[name] = StoredTensor(CODES[code], shape, reader.take(size, name))
    if reader.at < len(content):
        raise DirectoryError(f"{path} is damaged: its last tensor ends at byte {reader.at:,} of {len(content):,}.")
    return tensors


def _name(path: Path, raw: Bytes, length: int) -> str:
    if not 2 <= length <= MAX_NAME_BYTES or raw[-1] != 0:
        raise DirectoryError(f"{path} is damaged: the name of a tensor has {length} bytes, or is not terminated.")
    name = raw[:-1].tobytes().decode(errors="replace")
    if "\ufffd" in name or not name.isprintable():  # it would be shown in messages
        raise DirectoryError(f"{path} is damaged: {raw[:100].tobytes()!r} is not a valid tensor name.")
    return name
