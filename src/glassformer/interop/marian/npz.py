"""A zip of .npy arrays, read where it lies: strict, since NumPy's own reader believes what a file says of its sizes."""

import itertools
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import DirectoryError

MOST_ARRAYS = 20_000
"""Far more than any model has; a table of millions would take more memory than its file."""
MOST_AXES = 8
GROWTH = 2
"""Times the size of the file that its compressed arrays may have: weights hardly shrink."""

Bytes = NDArray[np.uint8]
LAST = Struct("<4sHHHHIIH")
ENTRY = Struct("<4s4xHH4xIIIHHH8xI")
LOCAL = Struct("<4s22xHH")
HEADER = re.compile(
    rb"\{'descr': '[<|=]?([fiu])([1248])', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\),? *\}[ \n]*"
)
KINDS = {b"f2": "float16", b"f4": "float32", b"f8": "float64", b"i1": "int8", b"u1": "uint8"}


class Stored(NamedTuple):
    """A tensor as it lies in a file."""

    kind: str
    """The type of its numbers, by name."""
    shape: tuple[int, ...]
    data: Bytes
    columns_first: bool = False


class _Entry(NamedTuple):
    name: str
    packed: bool
    checksum: int
    size: int
    """Of the array, unpacked."""
    begin: int
    """Where its own header begins."""
    data: int
    """Where its bytes begin."""
    end: int


def read_npz(path: Path, content: Bytes) -> dict[str, Stored]:
    """All arrays of the file by name."""
    entries = list(_entries(path, content))
    in_order = sorted(entries, key=lambda entry: entry.begin)
    for one, other in itertools.pairwise(in_order):
        if one.end > other.begin:
            raise DirectoryError(f"{path} is damaged: {one.name} and {other.name} lie in the same place.")
    unpacked = sum(entry.size for entry in entries if entry.packed)
    if unpacked > GROWTH * len(content) + 2**16:
        raise DirectoryError(
            f"{path} says that its {len(content):,} bytes unpack to {unpacked:,}, which weights never do: "
            "save it again without compression (`numpy.savez`)."
        )
    found: dict[str, Stored] = {}
    for entry in entries:
        if entry.name in found:
            raise DirectoryError(f"{path} is damaged: it holds {entry.name!r} twice.")
        found[entry.name] = _array(path, entry, _unpacked(path, content, entry))
    return found


def _entries(path: Path, content: Bytes) -> Iterator[_Entry]:
    """The zip's table of contents, which stands at its end."""
    tail = content[-(LAST.size + 2**16) :].tobytes()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + LAST.size > len(tail):
        raise DirectoryError(f"{path} is a zip that is cut off: its table of contents is missing. Fetch it again.")
    _, *disks, count, size, offset, _ = LAST.unpack_from(tail, at)
    end = len(content) - len(tail) + at
    if any(disks[:2]) or disks[2] != count or count > MOST_ARRAYS or offset + size > end:
        raise DirectoryError(
            f"{path} is damaged: its table of contents should have {count:,} entries in {size:,} bytes from byte "
            f"{offset:,} on, before byte {end:,}."
        )
    table = content[offset : offset + size].tobytes()
    at = 0
    for _ in range(count):
        if at + ENTRY.size > len(table) or table[at : at + 4] != b"PK\x01\x02":
            raise DirectoryError(f"{path} is damaged: the table of contents ends before its {count:,} entries.")
        _, flags, method, checksum, packed_size, array_size, name, extra, comment, begin = ENTRY.unpack_from(table, at)
        at += ENTRY.size
        called = table[at : at + name].decode(errors="replace").removesuffix(".npy")
        at += name + extra + comment
        if begin + LOCAL.size > offset or content[begin : begin + 4].tobytes() != b"PK\x03\x04":
            raise DirectoryError(f"{path} is damaged: {called!r} should begin at byte {begin:,}, and does not.")
        _, own_name, own_extra = LOCAL.unpack_from(content[begin : begin + LOCAL.size].tobytes())
        data = begin + LOCAL.size + own_name + own_extra
        if (
            flags & 1
            or method not in (0, 8)
            or data + packed_size > offset
            or (method == 0 and packed_size != array_size)
        ):
            raise DirectoryError(f"{path} is damaged: {called!r} is encrypted, or its sizes do not fit the file.")
        yield _Entry(called, method == 8, checksum, array_size, begin, data, data + packed_size)


def _unpacked(path: Path, content: Bytes, entry: _Entry) -> Bytes:
    data: Any = content[entry.data : entry.end]
    if entry.packed:
        try:
            data = np.frombuffer(zlib.decompressobj(-15).decompress(data, entry.size + 1), dtype=np.uint8)
        except zlib.error as error:
            raise DirectoryError(f"{path} is damaged: {entry.name!r} cannot be unpacked ({error}).") from None
    if len(data) != entry.size or zlib.crc32(data) != entry.checksum:
        raise DirectoryError(f"{path} is damaged: {entry.name!r} is not what its checksum says. Fetch it again.")
    return data


def _array(path: Path, entry: _Entry, data: Bytes) -> Stored:
    """A .npy: magic, version, the length of the header, the header, the numbers."""
    begin = data[:12].tobytes()
    wide = begin[6:7] in (b"\x02", b"\x03")
    if begin[:6] != b"\x93NUMPY" or not (wide or begin[6:7] == b"\x01"):
        raise DirectoryError(f"{path} holds {entry.name!r}, which is not an array: only a Marian model can be opened.")
    first = 12 if wide else 10
    length = int.from_bytes(begin[8:first], "little")
    header = HEADER.fullmatch(data[first : first + min(length, 1000)].tobytes())
    kind = KINDS.get(header[1] + header[2]) if header else None
    if header is None or kind is None:
        raise DirectoryError(
            f"{path} holds {entry.name!r} as an array that is not made of plain numbers (float16, 32, 64 or bytes)."
        )
    shape = tuple(int(axis) for axis in header[4].replace(b" ", b"").split(b",") if axis)
    numbers = data[first + length :]
    if not 1 <= len(shape) <= MOST_AXES or 0 in shape or math.prod(shape) * int(header[2]) != len(numbers):
        raise DirectoryError(
            f"{path} is damaged: {entry.name!r} of shape {list(shape)[:MOST_AXES]} has {len(numbers):,} bytes."
        )
    return Stored(kind, shape, numbers, header[3] == b"True")
