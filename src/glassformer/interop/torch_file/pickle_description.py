"""Description in JSON of what a torch.save file holds."""

import os
from collections.abc import Iterable
from json import dumps
from typing import Any

from glassformer.interop.torch_file.pickled_names import NUMPY_FUNCTIONS, Name, Record, Storage, Tensor
from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, MAX_AXES, MAX_DEPTH, MAX_PICKLE_BYTES, refuse
from glassformer.interop.torch_file.save_formats import parse_legacy, parse_zip

CONTAINERS: dict[type, str] = {list: "l", tuple: "t", set: "s"}
PLACEHOLDERS: dict[type, str] = {Name: "N", Tensor: "T", Storage: "S"}
PLAIN = (type(None), bool, int, float, str)


class Description:
    """JSON output of limited length: null, numbers and text as they are, everything else as [kind, ...]."""

    def __init__(self, max_length: int) -> None:
        self.length_left = max_length
        self.pieces: list[str] = []

    def write(self, piece: str) -> None:
        self.length_left -= len(piece)
        if self.length_left < 0:
            refuse("expands to many times its size", ASK_FOR_STATE_DICT)
        self.pieces.append(piece)

    def value(self, value: Any, depth: int = 0) -> None:
        """Write any value as JSON. Recursive ones end at the depth limit."""
        if depth > MAX_DEPTH:
            refuse(f"nests its contents deeper than {MAX_DEPTH} levels", ASK_FOR_STATE_DICT)
        kind = type(value)
        if kind in PLAIN:
            self.write(dumps(value))
        elif kind is bytes:
            self.write(f'["b","{value.hex()}"]')
        elif kind in PLACEHOLDERS:
            self.write(dumps([PLACEHOLDERS[kind], *value]))
        elif kind is Record:
            self.record(value, depth)
        elif kind is dict:
            self.items("d", (part for pair in value.items() for part in pair), depth)
        else:
            self.items(CONTAINERS[kind], value, depth)

    def items(self, kind: str, items: Iterable[Any], depth: int) -> None:
        self.write(f'["{kind}"')
        for item in items:
            self.write(",")
            self.value(item, depth + 1)
        self.write("]")

    def record(self, record: Record, depth: int) -> None:
        """Write a record: its attributes, or else its arguments (the value of an enum, the parts of a path)."""
        contents = {} if record.attributes is None else record.attributes
        if record.name in NUMPY_FUNCTIONS:
            self.write(numpy_json(record))
            return
        if record.attributes is None and record.arguments:
            contents = record.arguments[0] if len(record.arguments) == 1 else record.arguments
        if record.name.startswith("omegaconf.") and type(contents) is dict:
            # the rest is bookkeeping with references to parents
            contents = contents.get("_content", contents.get("_val", contents))
        self.value(contents, depth + 1)


def numpy_json(record: Record) -> str:
    """A NumPy array or scalar as JSON: ["n", type, shape or null for a scalar, bytes].

    A pickle has them in (dtype, bytes) or in the attributes.
    """
    if record.name.endswith(".scalar"):
        (dtype, data), shape, fortran = record.arguments, None, False
    else:
        _, shape, dtype, fortran, data = record.attributes
    if type(dtype) is not Record or type(dtype.arguments[0]) is not str or type(data) is not bytes:
        refuse("holds a numpy array that is not made of numbers", ASK_FOR_STATE_DICT)
    if fortran or dtype.attributes[1] == ">":
        refuse("holds a numpy array in column-major or big-endian order", ASK_FOR_STATE_DICT)
    if shape is not None and (len(shape) > MAX_AXES or not all(type(length) is int for length in shape)):
        refuse("holds a numpy array whose shape is not a few integers")
    return dumps(["n", dtype.arguments[0], shape, data.hex()])


def describe(fd: int, size: int) -> str:
    """Describe the whole file as JSON: the saved object, its tensors, and its storages as [offset, bytes, crc]."""
    parse = parse_zip if os.pread(fd, 4, 0) == b"PK\x03\x04" else parse_legacy
    top, tensors, storages, reverse, length = parse(fd, size)
    description = Description(min(2**20 + 4 * length, MAX_PICKLE_BYTES))
    description.write('{"top":')
    description.value(top)
    for key, rows in (("tensors", tensors), ("storages", storages)):
        description.write(f',"{key}":[')
        for number, row in enumerate(rows):
            description.write(f"{',' if number else ''}{dumps(row)}")
        description.write("]")
    description.write(f',"reverse":{dumps(reverse)}}}')
    return "".join(description.pieces)
