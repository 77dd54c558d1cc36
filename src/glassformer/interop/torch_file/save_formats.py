"""The two formats of torch.save: the zip file of torch >= 1.6, and the sequence of pickles before it."""

import os
from io import BytesIO
from typing import Any, TypeAlias

from glassformer.interop.torch_file.pickle_interpreter import Pickle, TensorSpec
from glassformer.interop.torch_file.pickled_names import STORAGES, Name, Storage
from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, MAX_PICKLE_BYTES, printable, refuse
from glassformer.interop.torch_file.zip_directory import content, zip_entries

Location: TypeAlias = tuple[int, int, int | None]
"""A storage in the file: offset, bytes, checksum."""
ParsedFile: TypeAlias = tuple[Any, list[TensorSpec], list[Location], bool, int]
"""The object, its tensors, its storages, whether big-endian, the pickle's length."""


class Storages:
    """The storages that a pickle refers to, in order: element count and element size by key."""

    def __init__(self) -> None:
        self.sizes: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, int] = {}

    def __call__(self, identity: Any) -> Storage:
        """Resolve a persistent id: ("storage", type, key, device, count), and in old files a view, which is None."""
        word, kind, key, _, count = identity[:5]
        if word != "storage" or type(kind) is not Name or type(key) is not str or type(count) is not int or count < 0:
            refuse("refers to a storage in an unknown way")
        if any(identity[5:]):
            refuse("holds a storage that is a view of another", ASK_FOR_STATE_DICT)
        dtype, item = STORAGES[kind.full.rpartition(".")[2]]
        if self.sizes.setdefault(key, (count, item)) != (count, item):
            refuse(f"gives its storage {printable(key)} two sizes")
        return Storage(self.numbers.setdefault(key, len(self.numbers)), dtype)


def parse_legacy(fd: int, size: int) -> ParsedFile:
    """Parse a file of torch < 1.6: pickles of magic number, protocol, system, object and storage keys; storages."""
    source, storages = BytesIO(os.pread(fd, min(size, MAX_PICKLE_BYTES), 0)), Storages()
    pickle = Pickle(source, storages)
    try:
        known = pickle.load() == 0x1950A86A20F9469CFC6C and pickle.load() == 1001
    except Exception:
        known = False
    if not known:
        refuse("was not written by torch.save", "give the path of a checkpoint")
    pickle.load()
    top, keys = pickle.load(), pickle.load()
    if type(keys) is not list or any(type(key) is not str for key in keys) or {*keys} != {*storages.sizes}:
        refuse("does not list the storages that it uses")
    length = offset = source.tell()
    locations: dict[str, Location] = {}
    for key in keys:
        count, item = storages.sizes[key]
        if key in locations or int.from_bytes(os.pread(fd, 8, offset), "little") != count:
            refuse(f"does not hold its storage {printable(key)} at the expected offset")
        locations[key] = (offset + 8, count * item, None)
        offset += 8 + count * item
        if offset > size:
            refuse("is truncated")
    return top, pickle.tensors, [locations[key] for key in storages.sizes], False, length


def parse_zip(fd: int, size: int) -> ParsedFile:
    """Parse a file of torch >= 1.6, a zip: `name/data.pkl`, `name/data/key` and `name/byteorder`, uncompressed."""
    entries = zip_entries(fd, size)
    pickles = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        problem = "is a zip file, but was not written by torch.save (no data.pkl, or several)"
        refuse(problem, "give the path of a checkpoint")
    home = pickles[0].removesuffix("data.pkl")
    with_checksums = any(entry.crc for entry in entries.values())  # torch has an option that leaves them all 0
    data = content(fd, entries[pickles[0]], with_checksums)
    order = content(fd, entries[f"{home}byteorder"], with_checksums) if f"{home}byteorder" in entries else b"little"
    if order not in (b"little", b"big"):
        refuse("has a byte order that is neither little nor big")
    storages = Storages()
    pickle = Pickle(BytesIO(data), storages)
    top = pickle.load()
    locations: list[Location] = []
    for key, (count, item) in storages.sizes.items():
        entry, name = entries.get(f"{home}data/{key}"), printable(key)
        if entry is None or entry.size != count * item:
            refuse(f"does not hold its storage {name} with the stated size")
        if entry.method or entry.packed != entry.size:
            refuse(f"holds its storage {name} compressed", "unpack the zip file and pack it without compression")
        locations.append((entry.offset, entry.size, entry.crc if with_checksums else None))
    return top, pickle.tensors, locations, order == b"big", len(data)
