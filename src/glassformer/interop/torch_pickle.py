"""What torch.save wrote, as a description in JSON. Runs as a process of its own, started by `torch_file`.

A pickle is a program; this reads it without obeying it. A name in it is only ever looked up in our tables, and what it
wants called becomes data. Standard library alone, so that it starts in 20 ms; it knows neither torch nor glassformer.
"""

from __future__ import annotations  # importing `typing` would take as long as all the rest

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

    Placed: TypeAlias = tuple[int, str, int, tuple[int, ...], tuple[int, ...]]
    """A tensor: the number of its storage, dtype, offset, shape, stride."""
    Saved: TypeAlias = tuple[Any, list[Placed], list[tuple[int, int, int | None]], bool, int]
    """The object, its tensors, its storages (place, bytes, crc), whether bytes are in reverse, the pickle's length."""

PICKLE_LIMIT = 32 * 2**20
"""Bytes of pickle that are read: a tensor takes about 150, a word of a vocabulary 15; the numbers lie elsewhere."""
DEPTH_LIMIT = 100
"""Containers within containers."""
DIMENSIONS = 64
"""Of a tensor: as many as torch allows."""
INTEGER_BYTES = 128
"""Of a whole number: printing a longer one costs the square of its length."""
MEMORY = 128 * 2**20
"""Bytes of address space, beside twice the size of the file, or 1 GiB where that is less."""
FAILED, FORBIDDEN = 2, 3
"""What the process ends with where it had no answer, and where it met an audit event."""
AGAIN = "copy or download it again"
ALONE = "ask its author for a file with the state dict alone, or for safetensors"


class RefusedError(Exception):
    """The rest of a sentence that begins with the name of the file."""


def refuse(found: str, way_out: str = AGAIN) -> NoReturn:
    raise RefusedError(f"{found}: {way_out}.")


def shown(text: Any) -> str:
    """Something from the file as it may stand in a sentence."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:100])


# ---- names -----------------------------------------------------------------------------------------------------------


class Name:
    """A class or function that the pickle names: a label, never the thing."""

    __slots__ = ("full",)

    def __init__(self, full: str) -> None:
        self.full = full


class Record:
    """An object of a class that we do not have: what it was made from, and its attributes."""

    __slots__ = ("arguments", "attributes", "name")

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.attributes: Any = None


class Storage:
    """The how-manieth storage of the file, and what it holds unless a tensor says otherwise."""

    __slots__ = ("dtype", "number")

    def __init__(self, number: int, dtype: str) -> None:
        self.number, self.dtype = number, dtype


class Tensor:
    """The how-manieth tensor of the file."""

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
NUMPY = {f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("_reconstruct", "scalar")}
ANNOTATIONS = {"_operator.getitem", "builtins.type"}
"""What settings call to say `Optional[int]`. As records they are as dead as all others."""
RECORDS = {"argparse.Namespace", "pathlib.PosixPath", "torch.Size", "torch.device", "numpy.dtype", *NUMPY, *ANNOTATIONS}
PACKAGES = {"fairseq", "omegaconf"}
"""Whose objects become records as well: settings, meters, enums."""
LABELS = {
    "numpy.ndarray",
    "torch.storage.UntypedStorage",
    *(f"torch.{name}" for name in (*STORAGES, *DTYPES)),
    *(f"typing.{name}" for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")),
    *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "long", "object", "str", "tuple")),
    "builtins.unicode",
}
"""What is spoken of, but never called."""


def named(module: str, name: str) -> Name:
    """The stand-in for a global. Only what is in our tables has one."""
    full = f"{'builtins' if module == '__builtin__' else module}.{name}"  # protocol 2 says it as Python 2 did
    if full in MAKERS or full in LABELS or recorded(full):
        return Name(full)
    refuse(f"names {shown(full)}, which a state dict does not need (nothing of it was run)", ALONE)


def recorded(full: str) -> bool:
    return full in RECORDS or full.split(".")[0] in PACKAGES


def checked_key(key: Any) -> Any:
    """Keys are plain: the hash of anything deeper costs what its writer likes."""
    plain = (str, int, float, bool, bytes, type(None))
    if type(key) in plain or (type(key) is tuple and all(type(part) in plain for part in key)):
        return key
    refuse(f"holds a {type(key).__name__} where a key or an item of a set is wanted", ALONE)


def tensor(pickle: Pickle, storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> Tensor:
    """What the versions of _rebuild_tensor make; `rest`: requires_grad, hooks, from version 3 a dtype, metadata."""
    if type(storage) is not Storage or type(shape) is not tuple or type(stride) is not tuple:
        refuse("holds a tensor without storage or shape")
    numbers = (offset, *shape[:DIMENSIONS], *stride[:DIMENSIONS])
    if not all(type(number) is int for number in numbers) or len(numbers) != 1 + len(shape) + len(stride):
        refuse("holds a tensor whose shape is not made of a few whole numbers")
    if any(type(part) is dict and part for part in rest):
        refuse("holds a tensor with hooks, or one that is negated or conjugated only in name", ALONE)
    dtypes = [part.full.removeprefix("torch.") for part in rest if type(part) is Name]
    pickle.tensors.append((storage.number, dtypes[0] if dtypes else storage.dtype, offset, shape, stride))
    return Tensor(len(pickle.tensors) - 1)


def parameter(pickle: Pickle, data: Any, *rest: Any) -> Any:
    return data


def dictionary(pickle: Pickle, factory: Any = None) -> dict[Any, Any]:
    """OrderedDict and defaultdict: their items follow, and nobody asks here for one that is missing."""
    if type(factory) not in (Name, type(None)):
        refuse("holds a dict with its items in an unknown place", ALONE)
    return {}


def a_set(pickle: Pickle, items: Any) -> set[Any]:
    if type(items) is not list:
        refuse("makes a set of what is not a list")
    pickle.spend(len(items))
    return {checked_key(item) for item in items}


def some_bytes(pickle: Pickle, text: Any = "", encoding: Any = "latin1") -> bytes:
    """How protocol 2 writes bytes: as text to encode."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        refuse("holds bytes in an encoding that torch.save does not use")
    pickle.spend(len(text))
    return text.encode("latin-1")


MAKERS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": tensor,
    "torch._utils._rebuild_tensor_v2": tensor,
    "torch._utils._rebuild_tensor_v3": tensor,
    "torch._utils._rebuild_parameter": parameter,
    "collections.OrderedDict": dictionary,
    "collections.defaultdict": dictionary,
    "builtins.set": a_set,
    "builtins.frozenset": a_set,
    "builtins.bytes": some_bytes,
    "_codecs.encode": some_bytes,
}


# ---- the pickle ------------------------------------------------------------------------------------------------------


class Pickle:
    """The opcodes that protocols 2 to 5 write, over a stack of data and stand-ins. What lies there is never called."""

    def __init__(self, source: BytesIO, storage: Callable[[Any], Storage]) -> None:
        self.source, self.storage = source, storage
        self.tensors: list[Placed] = []
        self.left = len(source.getbuffer())
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The next object, opcode by opcode."""
        self.stack, self.below, self.memo = [], [], {}
        read, opcodes = self.source.read, OPCODES
        while (code := read(1)) != b".":
            opcode = opcodes.get(code)
            if opcode is None:
                refuse(f"holds the opcode {code!r}, which torch.save does not write" if code else "breaks off early")
            opcode(self)
        return self.stack.pop()

    def spend(self, items: int) -> None:
        """Copies: all together no more than the pickle has bytes, however often it names one thing."""
        self.left -= items
        if self.left < 0:
            refuse("copies one thing many times", ALONE)

    def take(self, size: int) -> bytes:
        data = self.source.read(size)
        if len(data) != size:
            refuse("breaks off early")
        return data

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def integer(self, size: int) -> int:
        if size > INTEGER_BYTES:
            refuse(f"holds a whole number of {size} bytes", ALONE)
        return self.number(size, signed=True)

    def text(self, size: int) -> str:
        """Text after its length in so many bytes."""
        return str(self.take(self.number(size)), "utf-8", "surrogatepass")

    def line(self) -> str:
        return str(self.source.readline(1000), "utf-8").removesuffix("\n")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def marked(self) -> list[Any]:
        """What came onto the stack since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def last(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    def put(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            refuse("appends to what is not a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            refuse("sets items of what is not a dict", ALONE)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[checked_key(key)] = value

    def add(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not set:
            refuse("adds to what is not a set")
        self.stack[-1].update(map(checked_key, items))

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            refuse("names something by what is not text")
        self.push(named(module, name))

    def make(self, what: Any, arguments: Any, keywords: Any = None) -> None:
        """REDUCE and NEWOBJ: a function from our table, or a record."""
        if type(what) is not Name or type(arguments) is not tuple or keywords:
            refuse("calls something that has no name", ALONE)
        if what.full in MAKERS:
            self.push(MAKERS[what.full](self, *arguments))
        elif recorded(what.full):
            self.push(Record(what.full, arguments))
        else:
            refuse(f"calls {what.full}", ALONE)

    def build(self, target: Any, state: Any) -> None:
        """BUILD: a record's attributes. A dict's are dropped: a state dict keeps the versions of its modules there."""
        if type(target) is Record:
            target.attributes = state
        elif type(target) is not dict:
            refuse("gives attributes to what has none")
        self.push(target)


OPCODES: dict[bytes, Callable[[Pickle], Any]] = {
    b"\x80": lambda p: p.take(1),  # the protocol
    b"\x95": lambda p: p.take(8),  # a frame's length, for those who read ahead
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
    """JSON, never longer than `left`: null, numbers and text as they are, all else as [kind, ...]."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.pieces: list[str] = []

    def write(self, piece: str) -> None:
        self.left -= len(piece)
        if self.left < 0:
            refuse("unfolds to many times its size", ALONE)
        self.pieces.append(piece)

    def value(self, value: Any, depth: int = 0) -> None:
        """Any value. What contains itself ends at the limit of depth."""
        if depth > DEPTH_LIMIT:
            refuse(f"nests its contents deeper than {DEPTH_LIMIT} levels", ALONE)
        kind = type(value)
        if kind in PLAIN:
            self.write(PLAIN[kind](value))
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
        """A record's attributes, or what it was made from: the value of an enum, the parts of a path."""
        contents = {} if record.attributes is None else record.attributes
        if record.name in NUMPY:
            self.write(numpy_text(record))
            return
        if record.attributes is None and record.arguments:
            contents = record.arguments[0] if len(record.arguments) == 1 else record.arguments
        if record.name.startswith("omegaconf.") and type(contents) is dict:
            # the rest is bookkeeping, and points back to its parents
            contents = contents.get("_content", contents.get("_val", contents))
        self.value(contents, depth + 1)


def numpy_text(record: Record) -> str:
    """["n", kind, shape or null for a scalar, bytes]; a pickle holds them in (dtype, bytes) or in the attributes."""
    if record.name.endswith(".scalar"):
        (dtype, data), shape, fortran = record.arguments, None, False
    else:
        _, shape, dtype, fortran, data = record.attributes
    if type(dtype) is not Record or type(dtype.arguments[0]) is not str or type(data) is not bytes:
        refuse("holds a numpy array that is not made of numbers", ALONE)
    if fortran or dtype.attributes[1] == ">":
        refuse("holds a numpy array with its columns or bytes in another order", ALONE)
    if shape is not None and (len(shape) > DIMENSIONS or not all(type(length) is int for length in shape)):
        refuse("holds a numpy array whose shape is not made of a few whole numbers")
    return f'["n",{quoted(dtype.arguments[0])},{"null" if shape is None else list(shape)},"{data.hex()}"]'


def float_text(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value)) or repr(value)


CONTAINERS: dict[type, str] = {list: "l", tuple: "t", set: "s"}
PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: repr,
    float: float_text,
    str: quoted,
    bytes: lambda value: f'["b","{value.hex()}"]',
    Tensor: lambda value: f'["T",{value.number}]',
    Storage: lambda value: f'["S",{value.number},{quoted(value.dtype)}]',
    Name: lambda value: f'["N",{quoted(value.full)}]',
}


def describe(fd: int, size: int) -> str:
    """The whole file: the object that was saved, its tensors, and its storages as [place, bytes, crc]."""
    read = from_zip if os.pread(fd, 4, 0) == b"PK\x03\x04" else from_legacy
    top, tensors, storages, reverse, length = read(fd, size)
    description = Description(min(2**20 + 4 * length, PICKLE_LIMIT))
    description.write('{"top":')
    description.value(top)
    description.write(',"tensors":[')
    for number, (storage, dtype, offset, shape, stride) in enumerate(tensors):
        comma = "," if number else ""
        description.write(f"{comma}[{storage},{quoted(dtype)},{offset},{list(shape)},{list(stride)}]")
    description.write('],"storages":[')
    for number, (place, count, crc) in enumerate(storages):
        description.write(f"{',' if number else ''}[{place},{count},{'null' if crc is None else crc}]")
    description.write(f'],"reverse":{"true" if reverse else "false"}}}')
    return "".join(description.pieces)


# ---- the two formats -------------------------------------------------------------------------------------------------


class Storages:
    """The storages that a pickle speaks of: count and bytes a number by key, in the order in which it does."""

    def __init__(self) -> None:
        self.sizes: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, int] = {}

    def __call__(self, identity: Any) -> Storage:
        """A persistent id: ("storage", type, key, device, count), and in old files a view, which is None."""
        word, kind, key, _, count = identity[:5]
        if word != "storage" or type(kind) is not Name or type(key) is not str or type(count) is not int or count < 0:
            refuse("speaks of a storage in an unknown way")
        if any(identity[5:]):
            refuse("holds a storage that is a view of another", ALONE)
        dtype, item = STORAGES[kind.full.rpartition(".")[2]]
        if self.sizes.setdefault(key, (count, item)) != (count, item):
            refuse(f"gives its storage {shown(key)} two sizes")
        return Storage(self.numbers.setdefault(key, len(self.numbers)), dtype)


def from_legacy(fd: int, size: int) -> Saved:
    """torch < 1.6: magic number, protocol, facts of the machine, the object, its keys, each a pickle; then storages."""
    source, storages = BytesIO(os.pread(fd, min(size, PICKLE_LIMIT), 0)), Storages()
    pickle = Pickle(source, storages)
    try:
        known = pickle.load() == 0x1950A86A20F9469CFC6C and pickle.load() == 1001
    except Exception:
        known = False
    if not known:
        refuse("is not a file that torch.save wrote", "give the checkpoint itself")
    pickle.load()
    top, keys = pickle.load(), pickle.load()
    if type(keys) is not list or any(type(key) is not str for key in keys) or {*keys} != {*storages.sizes}:
        refuse("does not list the storages that it uses")
    length = place = source.tell()
    places: dict[str, tuple[int, int, int | None]] = {}
    for key in keys:
        count, item = storages.sizes[key]
        if key in places or int.from_bytes(os.pread(fd, 8, place), "little") != count:
            refuse(f"does not hold its storage {shown(key)} where it should")
        places[key] = (place + 8, count * item, None)
        place += 8 + count * item
        if place > size:
            refuse("breaks off early")
    return top, pickle.tensors, [places[key] for key in storages.sizes], False, length


def from_zip(fd: int, size: int) -> Saved:
    """torch >= 1.6: `name/data.pkl`, `name/data/key` and `name/byteorder`, stored as they are."""
    entries = zip_entries(fd, size)
    pickles = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        refuse("is a zip file without one data.pkl in it", "give the checkpoint itself")
    home = pickles[0].removesuffix("data.pkl")
    with_sums = any(entry.crc for entry in entries.values())  # torch can be told to leave all of them 0
    data = content(fd, entries[pickles[0]], with_sums)
    order = content(fd, entries[f"{home}byteorder"], with_sums) if f"{home}byteorder" in entries else b"little"
    if order not in (b"little", b"big"):
        refuse("has a byte order that is neither little nor big")
    storages = Storages()
    pickle = Pickle(BytesIO(data), storages)
    top = pickle.load()
    places: list[tuple[int, int, int | None]] = []
    for key, (count, item) in storages.sizes.items():
        entry = entries.get(f"{home}data/{key}")
        if entry is None or entry.size != count * item:
            refuse(f"does not hold its storage {shown(key)} as it says")
        if entry.method or entry.packed != entry.size:
            refuse(f"holds its storage {shown(key)} compressed", "unpack the zip file, and pack it without compression")
        places.append((entry.place, entry.size, entry.crc if with_sums else None))
    return top, pickle.tensors, places, order == b"big", len(data)


class Entry:
    """A file in a zip file: how its bytes are packed, where its header and where its bytes begin."""

    __slots__ = ("crc", "head", "method", "packed", "place", "size")

    def __init__(self, method: int, crc: int, packed: int, size: int, head: int) -> None:
        self.method, self.crc, self.packed, self.size, self.head = method, crc, packed, size, head
        self.place = 0


def content(fd: int, entry: Entry, with_sums: bool) -> bytes:
    """A small entry's bytes: never more than it says, and the ones that were written."""
    if max(entry.size, entry.packed) > PICKLE_LIMIT:
        refuse(f"holds a pickle of {entry.size:,} bytes, and {PICKLE_LIMIT:,} are read", ALONE)
    data = os.pread(fd, entry.packed, entry.place)
    if entry.method == 8:
        data = zlib.decompressobj(-15).decompress(data, entry.size + 1)
    elif entry.method:
        refuse("holds a pickle that is packed in an unknown way")
    if len(data) != entry.size or (with_sums and zlib.crc32(data) != entry.crc):
        refuse("is damaged, its checksum is wrong")
    return data


def zip_entries(fd: int, size: int) -> dict[str, Entry]:
    """What the central directory lists, each held against the header before its bytes."""
    directory, count, start = central_directory(fd, size)
    entries: dict[str, Entry] = {}
    place = 0
    for _ in range(count):
        fields = struct.unpack_from("<4s4x2H4x3L3H4x2L", directory, place)
        mark, flags, method, crc, packed, long, name_length, extra_length, comment_length, attributes, head = fields
        end = place + 46 + name_length
        name, extra = str(directory[place + 46 : end], "utf-8"), directory[end : end + extra_length]
        place = end + extra_length + comment_length
        if mark != b"PK\x01\x02" or flags & 1:
            refuse("is a damaged or encrypted zip file")
        if name in entries or unfit(name) or attributes >> 28 == 0o12:  # the kind of a link
            refuse(f"is a zip file with an entry that may not be there, {shown(name)}", ALONE)
        entries[name] = Entry(method, crc, *wide(extra, packed, long, head))
    if place != len(directory):
        refuse("is a damaged zip file")
    seat(fd, entries, start)
    return entries


def central_directory(fd: int, size: int) -> tuple[bytes, int, int]:
    """Its bytes, how many entries it lists, where it begins. It ends the file: a comment could hold another one."""
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
    if start + length != end or length > PICKLE_LIMIT or count * 46 > length:
        refuse("is a damaged zip file")
    return os.pread(fd, length, start), count, start


def wide(extra: bytes, packed: int, size: int, head: int) -> tuple[int, int, int]:
    """The three numbers that may not fit into 32 bits, from the zip64 field where they do not."""
    field, place = b"", 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            field = extra[place + 4 : place + 4 + length]
        place += 4 + length
    numbers = [size, packed, head]
    for which, number in enumerate(numbers):
        if number == 2**32 - 1:
            numbers[which], field = struct.unpack_from("<Q", field)[0], field[8:]
    return numbers[1], numbers[0], numbers[2]


def unfit(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/") or any(letter in name for letter in "\\\0:")


def seat(fd: int, entries: dict[str, Entry], limit: int) -> None:
    """Where each entry's bytes lie: after its own header, before the next one's."""
    free = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].head):
        header = os.pread(fd, 30, entry.head) if free <= entry.head < limit else b""
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            refuse(f"is a zip file whose entry {shown(name)} is not where it says")
        method, name_length, extra_length = struct.unpack("<8xH16x2H", header)
        entry.place = entry.head + 30 + name_length + extra_length
        free = entry.place + entry.packed
        if os.pread(fd, name_length, entry.head + 30) != name.encode() or method != entry.method or free > limit:
            refuse(f"is a zip file whose entry {shown(name)} is not where it says")


# ---- the process -----------------------------------------------------------------------------------------------------


def confine(size: int, seconds: int) -> None:
    """From here on no new file, process or socket, no byte on disk; memory and time by the size of the file."""
    import resource  # not on Windows, which comes no further than `torch_file`

    memory = MEMORY + min(2 * size, 32 * PICKLE_LIMIT)
    limits = {"FSIZE": 0, "CORE": 0, "NPROC": 0, "NOFILE": 0, "CPU": seconds, "AS": memory, "DATA": memory}
    for name, limit in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(which, (limit, limit))
        except (ValueError, OSError):
            if name not in ("AS", "DATA"):  # macOS has these in name only
                raise
    sys.addaudithook(forbid)


def forbid(event: str, arguments: Any) -> None:
    """Nothing that Python finds worth an audit event has a place here."""
    os._exit(FORBIDDEN)


def main() -> None:
    """Describe standard input on standard output."""
    gc.disable()  # nothing is thrown away before the end
    size = os.fstat(0).st_size
    confine(size, int(sys.argv[1]))
    code = FAILED
    try:
        left = memoryview(answer(size).encode())
        while left:
            left = left[os.write(1, left) :]
        code = 0
    finally:
        os._exit(code)


def answer(size: int) -> str:
    try:
        return describe(0, size)
    except RefusedError as error:
        refused = str(error)
    except MemoryError:
        refused = f"needs more memory than a state dict does: {ALONE}."
    except Exception:  # an opcode met what it cannot work on, a header ended early
        refused = f"is damaged: {AGAIN}."
    return f'{{"refused":{quoted(refused)}}}'
