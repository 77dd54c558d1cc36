"""Strict parser for zip files: every entry is where the central directory says, and nothing has two meanings."""

import os
import struct
import zlib
from itertools import accumulate, pairwise

from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, MAX_PICKLE_BYTES, printable, refuse


class Entry:
    """An entry of a zip file: compression, sizes, and the offsets of its header and its bytes."""

    __slots__ = ("crc", "header_offset", "method", "offset", "packed", "size")

    def __init__(self, method: int, crc: int, packed: int, size: int, header_offset: int) -> None:
        self.method, self.crc, self.packed, self.size, self.header_offset = method, crc, packed, size, header_offset
        self.offset = 0


def read_at(fd: int, length: int, offset: int) -> bytes:
    """Bytes of a file from an offset on."""
    if hasattr(os, "pread"):
        return os.pread(fd, length, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # Windows; the descriptor belongs to one thread
    return os.read(fd, length)


def content(fd: int, entry: Entry, with_checksums: bool) -> bytes:
    """The bytes of a small zip entry, checked against its size and checksum."""
    if max(entry.size, entry.packed) > MAX_PICKLE_BYTES:
        refuse(f"holds a pickle of {entry.size:,} bytes; the limit is {MAX_PICKLE_BYTES:,}", ASK_FOR_STATE_DICT)
    data = read_at(fd, entry.packed, entry.offset)
    if entry.method == 8:
        data = zlib.decompressobj(-15).decompress(data, entry.size + 1)
    elif entry.method:
        refuse("holds a pickle that is compressed with an unknown method")
    if len(data) != entry.size or (with_checksums and zlib.crc32(data) != entry.crc):
        refuse("is damaged, its checksum is wrong")
    return data


def zip_entries(fd: int, size: int, forbidden: str = "\\\0:", max_entries: int = MAX_PICKLE_BYTES) -> dict[str, Entry]:
    """The entries of a zip's central directory by name, each checked against its local header.

    `forbidden`: letters that names must not contain.
    """
    directory, count, start = central_directory(fd, size)
    if count > max_entries:
        refuse(f"is a zip file of {count:,} entries; the limit is {max_entries:,}")
    entries: dict[str, Entry] = {}
    offset = 0
    for _ in range(count):
        fields = struct.unpack_from("<4s4x2H4x3L3H4x2L", directory, offset)
        mark, flags, method, crc, packed, full_size, *lengths, attributes, header_offset = fields
        raw_name, extra, _ = (directory[i:j] for i, j in pairwise(accumulate(lengths, initial=offset + 46)))
        name = str(raw_name, "utf-8")
        offset += 46 + sum(lengths)
        if mark != b"PK\x01\x02" or flags & 1:
            refuse("is a damaged or encrypted zip file")
        if name in entries or is_unsafe(name, forbidden) or attributes >> 28 == 0o12:  # a symbolic link
            refuse(f"is a zip file with a forbidden entry, {printable(name)}", ASK_FOR_STATE_DICT)
        entries[name] = Entry(method, crc, *zip64_sizes(extra, packed, full_size, header_offset))
    if offset != len(directory):
        refuse("is a damaged zip file")
    locate_entries(fd, entries, start)
    return entries


def central_directory(fd: int, size: int) -> tuple[bytes, int, int]:
    """Bytes, number of entries and offset of a zip's central directory, which must end the file.

    After it, a comment could hide a second one.
    """
    tail = read_at(fd, 22, max(size - 22, 0))
    if len(tail) != 22 or tail[:4] != b"PK\x05\x06":
        refuse("begins as a zip file, but does not end as one")
    count, length, start = struct.unpack("<10xH2L2x", tail)
    end = size - 22
    locator = read_at(fd, 20, max(end - 20, 0))
    if locator[:4] == b"PK\x06\x07":
        end = size - 22 - 20 - 56
        wide_tail = read_at(fd, 56, max(end, 0))
        if wide_tail[:4] != b"PK\x06\x06" or int.from_bytes(locator[8:16], "little") != end:
            refuse("is a damaged zip file")
        count, length, start = struct.unpack("<32x3Q", wide_tail)
    if start + length != end or length > MAX_PICKLE_BYTES or count * 46 > length:
        refuse("is a damaged zip file")
    return read_at(fd, length, start), count, start


def zip64_sizes(extra: bytes, packed: int, size: int, header_offset: int) -> tuple[int, int, int]:
    """Packed size, size and header offset of a zip entry; from its zip64 field where they do not fit into 32 bits."""
    field, offset = b"", 0
    while offset + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, offset)
        if kind == 1:
            field = extra[offset + 4 : offset + 4 + length]
        offset += 4 + length
    numbers = [size, packed, header_offset]
    for which, number in enumerate(numbers):
        if number == 2**32 - 1:
            numbers[which], field = struct.unpack_from("<Q", field)[0], field[8:]
    return numbers[1], numbers[0], numbers[2]


def is_unsafe(name: str, forbidden: str) -> bool:
    return name.startswith("/") or ".." in name.split("/") or any(letter in name for letter in forbidden)


def locate_entries(fd: int, entries: dict[str, Entry], limit: int) -> None:
    """Find the bytes of each zip entry: after its own header, before the next one's."""
    free = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].header_offset):
        misplaced = f"is a zip file whose entry {printable(name)} is not where the directory says"
        if entry.header_offset < free:
            refuse(f"{misplaced}, but overlaps another one")
        header = read_at(fd, 30, entry.header_offset) if entry.header_offset < limit else b""
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            refuse(misplaced)
        method, name_length, extra_length = struct.unpack("<8xH16x2H", header)
        entry.offset = entry.header_offset + 30 + name_length + extra_length
        free = entry.offset + entry.packed
        local_name = read_at(fd, name_length, entry.header_offset + 30)
        if local_name != name.encode() or method != entry.method or free > limit:
            refuse(misplaced)
