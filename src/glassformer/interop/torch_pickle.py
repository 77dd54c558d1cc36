"""Sandboxed parser for torch.save files: describes them in JSON. Runs as a subprocess of `torch_file`.

A pickle is a program; this interprets its opcodes without calling anything that it names: globals are only looked up
in fixed tables, and calls become data. Uses the standard library alone, so that it starts in 20 ms.
"""

from __future__ import annotations  # importing `typing` takes as long as everything else

import gc
import os
import struct
import sys
import zlib
from _json import encode_basestring_ascii as quoted
from io import BytesIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn, TypeAlias

    TensorSpec: TypeAlias = tuple[int, str, int, tuple[int, ...], tuple[int, ...]]
    """A tensor: storage number, dtype, offset, shape, stride."""
    ParsedFile: TypeAlias = tuple[Any, list[TensorSpec], list[tuple[int, int, int | None]], bool, int]
    """The object, its tensors, its storages (offset, bytes, crc), whether big-endian, the pickle's length."""

MAX_PICKLE_BYTES = 32 * 2**20
"""Size limit of the pickle: a tensor takes about 150 bytes, a vocabulary word 15; tensor data is stored elsewhere."""
MAX_DEPTH = 100
"""Nesting limit of containers."""
MAX_DIMENSIONS = 64
"""Dimensions of a tensor: the limit of torch."""
MAX_INTEGER_BYTES = 128
"""Size limit of an integer: the cost of printing one is quadratic in its length."""
BASE_MEMORY_BYTES = 128 * 2**20
"""Memory limit of the process, in addition to twice the size of the file, or to 1 GiB if that is less."""
EXIT_FAILED, EXIT_FORBIDDEN = 2, 3
"""Exit codes: no result, and an audit event was raised."""
DOWNLOAD_AGAIN = "copy or download it again"
ASK_FOR_STATE_DICT = "use a file from a source you trust that holds only the state dict, or safetensors"


class RefusedError(Exception):
    """Raised to refuse the file; the message is a sentence without its subject, the file name."""


def refuse(problem: str, way_out: str = DOWNLOAD_AGAIN) -> NoReturn:
    raise RefusedError(f"{problem}: {way_out}.")


def printable(text: Any) -> str:
    """Text from the file, made safe to show in a message."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:100])


# ---- names -----------------------------------------------------------------------------------------------------------


class Name:
    """A class or function that the pickle names: its name only, never the object."""

    __slots__ = ("full",)

    def __init__(self, full: str) -> None:
        self.full = full


class Record:
    """An object of another package's class: constructor arguments and attributes."""

    __slots__ = ("arguments", "attributes", "name")

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.attributes: Any = None


class Storage:
    """A storage by its index in the file, with the dtype of its tensors unless they state another."""

    __slots__ = ("dtype", "number")

    def __init__(self, number: int, dtype: str) -> None:
        self.number, self.dtype = number, dtype


class Tensor:
    """A tensor by its index in the file."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


STORAGES = {
    "FloatStorage": ("float32", 4),
    "DoubleStorage": ("float64", 8),
    "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2),
    "LongStorage": ("int64", 8),
    "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2),
    "CharStorage": ("int8", 1),
    "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1),
    "ComplexFloatStorage": ("complex64", 8),
    "ComplexDoubleStorage": ("complex128", 16),
    "UntypedStorage": ("uint8", 1),
}
DTYPES = {
    *(dtype for dtype, _ in STORAGES.values()),
    *("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
}
NUMPY_FUNCTIONS = {
    f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("_reconstruct", "scalar")
}
ANNOTATIONS = {"_operator.getitem", "builtins.type"}
"""Functions that pickled settings call for types such as `Optional[int]`. As records they are inert."""
RECORDS = {
    "argparse.Namespace",
    "pathlib.PosixPath",
    "torch.Size",
    "torch.device",
    "numpy.dtype",
    *NUMPY_FUNCTIONS,
    *ANNOTATIONS,
}
RECORD_PACKAGES = {"fairseq", "omegaconf"}
"""Packages whose objects become records as well: settings, meters, enums."""
LABELS = {
    "numpy.ndarray",
    "torch.storage.UntypedStorage",
    *(f"torch.{name}" for name in (*STORAGES, *DTYPES)),
    *(f"typing.{name}" for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")),
    *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "long", "object", "str", "tuple")),
    "builtins.unicode",
}
"""Globals that may be named but not called."""


def checked_name(module: str, name: str) -> Name:
    """The placeholder for a global; globals outside the tables are refused."""
    full = f"{'builtins' if module == '__builtin__' else module}.{name}"  # protocol 2 uses Python 2's name
    if full in CONSTRUCTORS or full in LABELS or is_record(full):
        return Name(full)
    refuse(f"refers to {printable(full)}, which no state dict needs (no code was run)", ASK_FOR_STATE_DICT)


def is_record(full: str) -> bool:
    return full in RECORDS or full.split(".")[0] in RECORD_PACKAGES


def checked_key(key: Any) -> Any:
    """Refuse dict keys that are not plain: hashing nested values can be made arbitrarily expensive."""
    plain = (str, int, float, bool, bytes, type(None))
    if type(key) in plain or (type(key) is tuple and all(type(part) in plain for part in key)):
        return key
    refuse("has a dict key or set item that is not a plain value", ASK_FOR_STATE_DICT)


def make_tensor(pickle: Pickle, storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> Tensor:
    """A call of any version of _rebuild_tensor; `rest`: requires_grad, hooks, from version 3 a dtype, metadata."""
    if type(storage) is not Storage or type(shape) is not tuple or type(stride) is not tuple:
        refuse("holds a tensor without storage or shape")
    numbers = (offset, *shape[:MAX_DIMENSIONS], *stride[:MAX_DIMENSIONS])
    if not all(type(number) is int for number in numbers) or len(numbers) != 1 + len(shape) + len(stride):
        refuse("holds a tensor whose shape is not a few integers")
    if any(type(part) is dict and part for part in rest):
        refuse("holds a tensor with hooks, or a lazily negated or conjugated one", ASK_FOR_STATE_DICT)
    dtypes = [part.full.removeprefix("torch.") for part in rest if type(part) is Name]
    pickle.tensors.append((storage.number, dtypes[0] if dtypes else storage.dtype, offset, shape, stride))
    return Tensor(len(pickle.tensors) - 1)


def make_parameter(pickle: Pickle, data: Any, *rest: Any) -> Any:
    return data


def make_dict(pickle: Pickle, factory: Any = None) -> dict[Any, Any]:
    """A call of OrderedDict or defaultdict: later opcodes set the items; the default factory is not needed."""
    if type(factory) not in (Name, type(None)):
        refuse("holds a dict that is built from unexpected arguments", ASK_FOR_STATE_DICT)
    return {}


def make_set(pickle: Pickle, items: Any) -> set[Any]:
    if type(items) is not list:
        refuse("builds a set from something that is not a list")
    pickle.charge(len(items))
    return {checked_key(item) for item in items}


def make_bytes(pickle: Pickle, text: Any = "", encoding: Any = "latin1") -> bytes:
    """Bytes as protocol 2 writes them: text to encode."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        refuse("holds bytes in an encoding that torch.save does not use")
    pickle.charge(len(text))
    return text.encode("latin-1")


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": make_tensor,
    "torch._utils._rebuild_tensor_v2": make_tensor,
    "torch._utils._rebuild_tensor_v3": make_tensor,
    "torch._utils._rebuild_parameter": make_parameter,
    "collections.OrderedDict": make_dict,
    "collections.defaultdict": make_dict,
    "builtins.set": make_set,
    "builtins.frozenset": make_set,
    "builtins.bytes": make_bytes,
    "_codecs.encode": make_bytes,
}


# ---- the pickle ------------------------------------------------------------------------------------------------------


class Pickle:
    """Interpreter for the opcodes of protocols 2 to 5, on a stack of data and placeholders. Nothing on it is called."""

    def __init__(self, source: BytesIO, storage: Callable[[Any], Storage]) -> None:
        self.source, self.storage = source, storage
        self.tensors: list[TensorSpec] = []
        self.items_left = len(source.getbuffer())
        self.stack: list[Any] = []
        self.outer_stacks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Interpret the next pickle of the file and return its object."""
        self.stack, self.outer_stacks, self.memo = [], [], {}
        read, opcodes = self.source.read, OPCODES
        while (code := read(1)) != b".":
            opcode = opcodes.get(code)
            if opcode is None:
                refuse(f"holds the opcode {code!r}, which torch.save does not write" if code else "is truncated")
            opcode(self)
        return self.stack.pop()

    def charge(self, items: int) -> None:
        """Count copied items against a limit, the bytes of the pickle, however often it refers to one object."""
        self.items_left -= items
        if self.items_left < 0:
            refuse("copies one object many times", ASK_FOR_STATE_DICT)

    def take(self, size: int) -> bytes:
        data = self.source.read(size)
        if len(data) != size:
            refuse("is truncated")
        return data

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def integer(self, size: int) -> int:
        if size > MAX_INTEGER_BYTES:
            refuse(f"holds an integer of {size} bytes", ASK_FOR_STATE_DICT)
        return self.number(size, signed=True)

    def text(self, size: int) -> str:
        """Read text after its length, an integer of `size` bytes."""
        return str(self.take(self.number(size)), "utf-8", "surrogatepass")

    def line(self) -> str:
        return str(self.source.readline(1000), "utf-8").removesuffix("\n")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def mark(self) -> None:
        self.outer_stacks.append(self.stack)
        self.stack = []

    def marked(self) -> list[Any]:
        """Pop the items pushed on the stack since the last mark."""
        items, self.stack = self.stack, self.outer_stacks.pop()
        return items

    def last(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    def put(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            refuse("appends to something that is not a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            refuse("sets items of something that is not a dict", ASK_FOR_STATE_DICT)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[checked_key(key)] = value

    def add(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not set:
            refuse("adds to something that is not a set")
        self.stack[-1].update(map(checked_key, items))

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            refuse("names a global with something that is not text")
        self.push(checked_name(module, name))

    def make(self, called: Any, arguments: Any, keywords: Any = None) -> None:
        """Opcodes REDUCE and NEWOBJ: push the result of a constructor from our table, or a record."""
        if type(called) is not Name or type(arguments) is not tuple or keywords:
            refuse("calls something that is not a named global", ASK_FOR_STATE_DICT)
        if called.full in CONSTRUCTORS:
            self.push(CONSTRUCTORS[called.full](self, *arguments))
        elif is_record(called.full):
            self.push(Record(called.full, arguments))
        else:
            refuse(f"calls {called.full}", ASK_FOR_STATE_DICT)

    def build(self, target: Any, state: Any) -> None:
        """Opcode BUILD: set a record's attributes. A dict's are dropped: those of a state dict are module versions."""
        if type(target) is Record:
            target.attributes = state
        elif type(target) is not dict:
            refuse("sets attributes of something that has none")
        self.push(target)


OPCODES: dict[bytes, Callable[[Pickle], Any]] = {
    b"\x80": lambda p: p.take(1),  # protocol version
    b"\x95": lambda p: p.take(8),  # frame length, for readers that prefetch
    b"(": Pickle.mark,
    b"0": Pickle.pop,
    b"1": Pickle.marked,
    b"2": lambda p: p.push(p.stack[-1]),
    b"N": lambda p: p.push(None),
    b"\x88": lambda p: p.push(True),
    b"\x89": lambda p: p.push(False),
    b")": lambda p: p.push(()),
    b"]": lambda p: p.push([]),
    b"}": lambda p: p.push({}),
    b"\x8f": lambda p: p.push(set()),
    b"K": lambda p: p.push(p.number(1)),
    b"M": lambda p: p.push(p.number(2)),
    b"J": lambda p: p.push(p.number(4, signed=True)),
    b"\x8a": lambda p: p.push(p.integer(p.number(1))),
    b"\x8b": lambda p: p.push(p.integer(p.number(4))),
    b"G": lambda p: p.push(struct.unpack(">d", p.take(8))[0]),
    b"U": lambda p: p.push(p.text(1)),  # Python 2's str
    b"T": lambda p: p.push(p.text(4)),
    b"\x8c": lambda p: p.push(p.text(1)),
    b"X": lambda p: p.push(p.text(4)),
    b"\x8d": lambda p: p.push(p.text(8)),
    b"C": lambda p: p.push(p.take(p.number(1))),
    b"B": lambda p: p.push(p.take(p.number(4))),
    b"\x8e": lambda p: p.push(p.take(p.number(8))),
    b"q": lambda p: p.put(p.number(1)),
    b"r": lambda p: p.put(p.number(4)),
    b"\x94": lambda p: p.put(len(p.memo)),
    b"h": lambda p: p.push(p.memo[p.number(1)]),
    b"j": lambda p: p.push(p.memo[p.number(4)]),
    b"t": lambda p: p.push(tuple(p.marked())),
    b"\x85": lambda p: p.push((p.pop(),)),
    b"\x86": lambda p: p.push(tuple(p.last(2))),
    b"\x87": lambda p: p.push(tuple(p.last(3))),
    b"\x91": lambda p: p.push(set(map(checked_key, p.marked()))),
    b"a": lambda p: p.extend(p.last(1)),
    b"e": lambda p: p.extend(p.marked()),
    b"s": lambda p: p.update(p.last(2)),
    b"u": lambda p: p.update(p.marked()),
    b"\x90": lambda p: p.add(p.marked()),
    b"c": lambda p: p.name(p.line(), p.line()),
    b"\x93": lambda p: p.name(*p.last(2)),
    b"R": lambda p: p.make(*p.last(2)),
    b"\x81": lambda p: p.make(*p.last(2)),
    b"\x92": lambda p: p.make(*p.last(3)),
    b"b": lambda p: p.build(*p.last(2)),
    b"Q": lambda p: p.push(p.storage(p.pop())),
}


# ---- the description -------------------------------------------------------------------------------------------------


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
        if kind in SCALARS:
            self.write(SCALARS[kind](value))
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
    if shape is not None and (len(shape) > MAX_DIMENSIONS or not all(type(length) is int for length in shape)):
        refuse("holds a numpy array whose shape is not a few integers")
    return f'["n",{quoted(dtype.arguments[0])},{"null" if shape is None else list(shape)},"{data.hex()}"]'


def float_json(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value)) or repr(value)


CONTAINERS: dict[type, str] = {list: "l", tuple: "t", set: "s"}
SCALARS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: repr,
    float: float_json,
    str: quoted,
    bytes: lambda value: f'["b","{value.hex()}"]',
    Tensor: lambda value: f'["T",{value.number}]',
    Storage: lambda value: f'["S",{value.number},{quoted(value.dtype)}]',
    Name: lambda value: f'["N",{quoted(value.full)}]',
}


def describe(fd: int, size: int) -> str:
    """Describe the whole file as JSON: the saved object, its tensors, and its storages as [offset, bytes, crc]."""
    read = parse_zip if os.pread(fd, 4, 0) == b"PK\x03\x04" else parse_legacy
    top, tensors, storages, reverse, length = read(fd, size)
    description = Description(min(2**20 + 4 * length, MAX_PICKLE_BYTES))
    description.write('{"top":')
    description.value(top)
    description.write(',"tensors":[')
    for number, (storage, dtype, offset, shape, stride) in enumerate(tensors):
        comma = "," if number else ""
        description.write(f"{comma}[{storage},{quoted(dtype)},{offset},{list(shape)},{list(stride)}]")
    description.write('],"storages":[')
    for number, (offset, count, crc) in enumerate(storages):
        description.write(f"{',' if number else ''}[{offset},{count},{'null' if crc is None else crc}]")
    description.write(f'],"reverse":{"true" if reverse else "false"}}}')
    return "".join(description.pieces)


# ---- the two formats -------------------------------------------------------------------------------------------------


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
    locations: dict[str, tuple[int, int, int | None]] = {}
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
        refuse(
            "is a zip file, but was not written by torch.save (no data.pkl, or several)",
            "give the path of a checkpoint",
        )
    home = pickles[0].removesuffix("data.pkl")
    with_checksums = any(entry.crc for entry in entries.values())  # torch has an option that leaves them all 0
    data = content(fd, entries[pickles[0]], with_checksums)
    order = content(fd, entries[f"{home}byteorder"], with_checksums) if f"{home}byteorder" in entries else b"little"
    if order not in (b"little", b"big"):
        refuse("has a byte order that is neither little nor big")
    storages = Storages()
    pickle = Pickle(BytesIO(data), storages)
    top = pickle.load()
    locations: list[tuple[int, int, int | None]] = []
    for key, (count, item) in storages.sizes.items():
        entry = entries.get(f"{home}data/{key}")
        if entry is None or entry.size != count * item:
            refuse(f"does not hold its storage {printable(key)} with the stated size")
        if entry.method or entry.packed != entry.size:
            refuse(
                f"holds its storage {printable(key)} compressed", "unpack the zip file and pack it without compression"
            )
        locations.append((entry.offset, entry.size, entry.crc if with_checksums else None))
    return top, pickle.tensors, locations, order == b"big", len(data)


class Entry:
    """An entry of a zip file: compression, sizes, and the offsets of its header and its bytes."""

    __slots__ = ("crc", "header_offset", "method", "offset", "packed", "size")

    def __init__(self, method: int, crc: int, packed: int, size: int, header_offset: int) -> None:
        self.method, self.crc, self.packed, self.size, self.header_offset = method, crc, packed, size, header_offset
        self.offset = 0


def content(fd: int, entry: Entry, with_checksums: bool) -> bytes:
    """The bytes of a small zip entry, checked against its size and checksum."""
    if max(entry.size, entry.packed) > MAX_PICKLE_BYTES:
        refuse(f"holds a pickle of {entry.size:,} bytes; the limit is {MAX_PICKLE_BYTES:,}", ASK_FOR_STATE_DICT)
    data = os.pread(fd, entry.packed, entry.offset)
    if entry.method == 8:
        data = zlib.decompressobj(-15).decompress(data, entry.size + 1)
    elif entry.method:
        refuse("holds a pickle that is compressed with an unknown method")
    if len(data) != entry.size or (with_checksums and zlib.crc32(data) != entry.crc):
        refuse("is damaged, its checksum is wrong")
    return data


def zip_entries(fd: int, size: int) -> dict[str, Entry]:
    """The entries of a zip's central directory by name, each checked against its local header."""
    directory, count, start = central_directory(fd, size)
    entries: dict[str, Entry] = {}
    offset = 0
    for _ in range(count):
        fields = struct.unpack_from("<4s4x2H4x3L3H4x2L", directory, offset)
        (
            mark,
            flags,
            method,
            crc,
            packed,
            full_size,
            name_length,
            extra_length,
            comment_length,
            attributes,
            header_offset,
        ) = fields
        end = offset + 46 + name_length
        name, extra = str(directory[offset + 46 : end], "utf-8"), directory[end : end + extra_length]
        offset = end + extra_length + comment_length
        if mark != b"PK\x01\x02" or flags & 1:
            refuse("is a damaged or encrypted zip file")
        if name in entries or is_unsafe(name) or attributes >> 28 == 0o12:  # a symbolic link
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
    tail = os.pread(fd, 22, max(size - 22, 0))
    if len(tail) != 22 or tail[:4] != b"PK\x05\x06":
        refuse("begins as a zip file, but does not end as one")
    count, length, start = struct.unpack("<10xH2L2x", tail)
    end = size - 22
    locator = os.pread(fd, 20, max(end - 20, 0))
    if locator[:4] == b"PK\x06\x07":
        end = size - 22 - 20 - 56
        wide_tail = os.pread(fd, 56, max(end, 0))
        if wide_tail[:4] != b"PK\x06\x06" or int.from_bytes(locator[8:16], "little") != end:
            refuse("is a damaged zip file")
        count, length, start = struct.unpack("<32x3Q", wide_tail)
    if start + length != end or length > MAX_PICKLE_BYTES or count * 46 > length:
        refuse("is a damaged zip file")
    return os.pread(fd, length, start), count, start


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


def is_unsafe(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/") or any(letter in name for letter in "\\\0:")


def locate_entries(fd: int, entries: dict[str, Entry], limit: int) -> None:
    """Find the bytes of each zip entry: after its own header, before the next one's."""
    free = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].header_offset):
        header = os.pread(fd, 30, entry.header_offset) if free <= entry.header_offset < limit else b""
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            refuse(f"is a zip file whose entry {printable(name)} is not where the directory says")
        method, name_length, extra_length = struct.unpack("<8xH16x2H", header)
        entry.offset = entry.header_offset + 30 + name_length + extra_length
        free = entry.offset + entry.packed
        if (
            os.pread(fd, name_length, entry.header_offset + 30) != name.encode()
            or method != entry.method
            or free > limit
        ):
            refuse(f"is a zip file whose entry {printable(name)} is not where the directory says")


# ---- the process -----------------------------------------------------------------------------------------------------


def confine(size: int, seconds: int) -> None:
    """Sandbox this process: no new files, processes or sockets, no writes; memory and time limited by the file size."""
    import resource  # not on Windows, which `torch_file` rejects

    memory = BASE_MEMORY_BYTES + min(2 * size, 32 * MAX_PICKLE_BYTES)
    limits = {"FSIZE": 0, "CORE": 0, "NPROC": 0, "NOFILE": 0, "CPU": seconds, "AS": memory, "DATA": memory}
    for name, limit in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(which, (limit, limit))
        except (ValueError, OSError):
            if name not in ("AS", "DATA"):  # macOS does not enforce these
                raise
    sys.addaudithook(end_process)


def end_process(event: str, arguments: Any) -> None:
    """Audit hook: parsing raises no audit events, so any event ends the process."""
    os._exit(EXIT_FORBIDDEN)


def main() -> None:
    """Describe standard input on standard output."""
    gc.disable()  # nothing is freed before the end
    size = os.fstat(0).st_size
    confine(size, int(sys.argv[1]))
    code = EXIT_FAILED
    try:
        unwritten = memoryview(result(size).encode())
        while unwritten:
            unwritten = unwritten[os.write(1, unwritten) :]
        code = 0
    finally:
        os._exit(code)


def result(size: int) -> str:
    """The description of standard input, or the reason it is refused, as JSON."""
    try:
        return describe(0, size)
    except RefusedError as error:
        refused = str(error)
    except MemoryError:
        refused = f"needs more memory than a state dict does: {ASK_FOR_STATE_DICT}."
    except Exception:  # an opcode with wrong operands, a truncated header
        refused = f"is damaged: {DOWNLOAD_AGAIN}."
    return f'{{"refused":{quoted(refused)}}}'
