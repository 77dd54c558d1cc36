"""Strict reader for .npz files (zipped .npy arrays), in place; NumPy's own reader trusts the sizes a file states."""

import math
import re
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import DirectoryError
from glassformer.interop.torch_file.refusal import DOWNLOAD_AGAIN, RefusedError
from glassformer.interop.torch_file.zip_directory import Entry, zip_entries

MAX_ARRAYS = 20_000
"""Maximum number of arrays in a file, far more than any model has: listing millions would take much memory."""
MAX_AXES = 8
MAX_EXPANSION = 2
"""Maximum decompressed size, as a multiple of the file's size: weights hardly compress."""

Bytes = NDArray[np.uint8]
HEADER = re.compile(
    rb"\{'descr': '[<|=]?([fiu])([1248])', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\),? *\}[ \n]*"
)
KINDS = {b"f2": "float16", b"f4": "float32", b"f8": "float64", b"i1": "int8", b"u1": "uint8"}


class StoredTensor(NamedTuple):
    """A tensor as it is stored in a file."""

    kind: str
    """Name of the tensor's element type."""
    shape: tuple[int, ...]
    data: Bytes
    column_major: bool = False


def read_npz(path: Path, content: Bytes) -> dict[str, StoredTensor]:
    """Read all arrays of an .npz file by name."""
    entries = _entries(path, len(content))
    decompressed = sum(entry.size for entry in entries.values() if entry.method)
    if decompressed > MAX_EXPANSION * len(content) + 2**16:
        raise DirectoryError(
            f"{path} states that its {len(content):,} bytes decompress to {decompressed:,}, more than weights ever do: "
            "save it again without compression (`numpy.savez`)."
        )
    arrays: dict[str, StoredTensor] = {}
    for file_name, entry in entries.items():
        name = file_name.removesuffix(".npy")
        if not name.isprintable():  # it would be shown in messages
            raise DirectoryError(f"{path} is damaged: {name[:100]!r} is not a valid tensor name.")
        if name in arrays:
            raise DirectoryError(f"{path} is damaged: it holds {name!r} twice.")
        arrays[name] = _array(path, name, _decompressed(path, name, content, entry))
    return arrays


def _entries(path: Path, size: int) -> dict[str, Entry]:
    try:
        with path.open("rb") as file:
            return zip_entries(file.fileno(), size, forbidden="\\\0", max_entries=MAX_ARRAYS)
    except RefusedError as error:
        raise DirectoryError(f"{path} {error.args[0]}: {DOWNLOAD_AGAIN}.") from None
    except (struct.error, ValueError):  # a truncated directory, a name that is not UTF-8
        raise DirectoryError(f"{path} is a damaged zip file: {DOWNLOAD_AGAIN}.") from None


def _decompressed(path: Path, name: str, content: Bytes, entry: Entry) -> Bytes:
    data: Any = content[entry.offset : entry.offset + entry.packed]
    if entry.method == 8:
        try:
            data = np.frombuffer(zlib.decompressobj(-15).decompress(data, entry.size + 1), dtype=np.uint8)
        except zlib.error as error:
            raise DirectoryError(f"{path} is damaged: {name!r} cannot be decompressed ({error}).") from None
    elif entry.method:
        raise DirectoryError(f"{path} is damaged: {name!r} is compressed with an unknown method.")
    if len(data) != entry.size or zlib.crc32(data) != entry.crc:
        raise DirectoryError(f"{path} is damaged: {name!r} does not match its checksum. Download it again.")
    return data


def _array(path: Path, name: str, data: Bytes) -> StoredTensor:
    """Parse a .npy array: magic, version, header length, header, elements."""
    begin = data[:12].tobytes()
    wide = begin[6:7] in (b"\x02", b"\x03")
    if begin[:6] != b"\x93NUMPY" or not (wide or begin[6:7] == b"\x01"):
        raise DirectoryError(f"{path} holds {name!r}, which is not an array: only a Marian model can be opened.")
    first = 12 if wide else 10
    length = int.from_bytes(begin[8:first], "little")
    header = HEADER.fullmatch(data[first : first + min(length, 1000)].tobytes())
    kind = KINDS.get(header[1] + header[2]) if header else None
    if header is None or kind is None:
        raise DirectoryError(
            f"{path} holds {name!r} as an array of an unsupported type: float16, float32, float64, int8 and "
            "uint8 are supported."
        )
    shape = [int(axis) for axis in header[4].replace(b" ", b"").split(b",") if axis]
    elements = data[first + length :]
    if not 1 <= len(shape) <= MAX_AXES or 0 in shape or math.prod(shape) * int(header[2]) != len(elements):
        raise DirectoryError(f"{path} is damaged: {name!r} of shape {shape[:MAX_AXES]} has {len(elements):,} bytes.")
    return StoredTensor(kind, tuple(shape), elements, header[3] == b"True")
