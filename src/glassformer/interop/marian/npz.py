"""Strict reader for .npz files (zipped .npy arrays), in place; NumPy's own reader trusts the sizes a file states."""

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

MAX_ARRAYS = 20_000
"""Maximum number of arrays in a file, far more than any model has: listing millions would take much memory."""
MAX_AXES = 8
MAX_EXPANSION = 2
"""Maximum decompressed size, as a multiple of the file's size: weights hardly compress."""

Bytes = NDArray[np.uint8]
END_RECORD = Struct("<4sHHHHIIH")
DIRECTORY_ENTRY = Struct("<4s4xHH4xIIIHHH8xI")
LOCAL_HEADER = Struct("<4s22xHH")
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


class _Entry(NamedTuple):
    name: str
    compressed: bool
    checksum: int
    size: int
    """Size of the decompressed array in bytes."""
    begin: int
    """Offset of the entry's local header in the zip."""
    data: int
    """Offset of the entry's bytes in the zip."""
    end: int


def read_npz(path: Path, content: Bytes) -> dict[str, StoredTensor]:
    """Read all arrays of an .npz file by name."""
    entries = list(_entries(path, content))
    in_order = sorted(entries, key=lambda entry: entry.begin)
    for entry, following in itertools.pairwise(in_order):
        if entry.end > following.begin:
            raise DirectoryError(f"{path} is damaged: {entry.name} and {following.name} overlap.")
    decompressed = sum(entry.size for entry in entries if entry.compressed)
    if decompressed > MAX_EXPANSION * len(content) + 2**16:
        raise DirectoryError(
            f"{path} states that its {len(content):,} bytes decompress to {decompressed:,}, more than weights ever do: "
            "save it again without compression (`numpy.savez`)."
        )
    arrays: dict[str, StoredTensor] = {}
    for entry in entries:
        if entry.name in arrays:
            raise DirectoryError(f"{path} is damaged: it holds {entry.name!r} twice.")
        arrays[entry.name] = _array(path, entry, _decompressed(path, content, entry))
    return arrays


def _entries(path: Path, content: Bytes) -> Iterator[_Entry]:
    """Parse the entries of the zip's central directory, which is at the end of the file."""
    tail = content[-(END_RECORD.size + 2**16) :].tobytes()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + END_RECORD.size > len(tail):
        raise DirectoryError(f"{path} is a truncated zip file: its central directory is missing. Download it again.")
    _, *disks, count, size, offset, _ = END_RECORD.unpack_from(tail, at)
    end = len(content) - len(tail) + at
    if any(disks[:2]) or disks[2] != count or count > MAX_ARRAYS or offset + size > end:
        raise DirectoryError(
            f"{path} is damaged: its central directory should have {count:,} entries in {size:,} bytes from byte "
            f"{offset:,}, before byte {end:,}."
        )
    table = content[offset : offset + size].tobytes()
    at = 0
    for _ in range(count):
        if at + DIRECTORY_ENTRY.size > len(table) or table[at : at + 4] != b"PK\x01\x02":
            raise DirectoryError(f"{path} is damaged: the central directory ends before its {count:,} entries.")
        _, flags, method, checksum, compressed_size, array_size, name_length, extra, comment, begin = (
            DIRECTORY_ENTRY.unpack_from(table, at)
        )
        at += DIRECTORY_ENTRY.size
        name = table[at : at + name_length].decode(errors="replace").removesuffix(".npy")
        at += name_length + extra + comment
        if begin + LOCAL_HEADER.size > offset or content[begin : begin + 4].tobytes() != b"PK\x03\x04":
            raise DirectoryError(f"{path} is damaged: {name!r} should start at byte {begin:,}, but does not.")
        _, local_name, local_extra = LOCAL_HEADER.unpack_from(content[begin : begin + LOCAL_HEADER.size].tobytes())
        data = begin + LOCAL_HEADER.size + local_name + local_extra
        if (
            flags & 1
            or method not in (0, 8)
            or data + compressed_size > offset
            or (method == 0 and compressed_size != array_size)
        ):
            raise DirectoryError(f"{path} is damaged: {name!r} is encrypted, or its sizes do not fit the file.")
        yield _Entry(name, method == 8, checksum, array_size, begin, data, data + compressed_size)


def _decompressed(path: Path, content: Bytes, entry: _Entry) -> Bytes:
    data: Any = content[entry.data : entry.end]
    if entry.compressed:
        try:
            data = np.frombuffer(zlib.decompressobj(-15).decompress(data, entry.size + 1), dtype=np.uint8)
        except zlib.error as error:
            raise DirectoryError(f"{path} is damaged: {entry.name!r} cannot be decompressed ({error}).") from None
    if len(data) != entry.size or zlib.crc32(data) != entry.checksum:
        raise DirectoryError(f"{path} is damaged: {entry.name!r} does not match its checksum. Download it again.")
    return data


def _array(path: Path, entry: _Entry, data: Bytes) -> StoredTensor:
    """Parse a .npy array: magic, version, header length, header, elements."""
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
            f"{path} holds {entry.name!r} as an array of an unsupported type: float16, float32, float64, int8 and "
            "uint8 are supported."
        )
    shape = tuple(int(axis) for axis in header[4].replace(b" ", b"").split(b",") if axis)
    elements = data[first + length :]
    if not 1 <= len(shape) <= MAX_AXES or 0 in shape or math.prod(shape) * int(header[2]) != len(elements):
        raise DirectoryError(
            f"{path} is damaged: {entry.name!r} of shape {list(shape)[:MAX_AXES]} has {len(elements):,} bytes."
        )
    return StoredTensor(kind, shape, elements, header[3] == b"True")
