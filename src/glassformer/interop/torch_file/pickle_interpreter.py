"""Interpreter for the pickles of torch.save, which calls nothing that they name.

A pickle is a program. Its globals are only looked up in fixed tables, and its calls become data.
"""

import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any, TypeAlias

from glassformer.interop.torch_file.pickled_names import LABELS, Name, Record, Storage, Tensor, checked_key, is_record
from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, MAX_AXES, MAX_INTEGER_BYTES, printable, refuse

TensorSpec: TypeAlias = tuple[int, str, int, tuple[int, ...], tuple[int, ...]]
"""A tensor: storage number, dtype, offset, shape, stride."""


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
        """Push the placeholder for a global; globals outside the tables are refused."""
        if type(module) is not str or type(name) is not str:
            refuse("names a global with something that is not text")
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"  # protocol 2 uses Python 2's name
        if full not in CONSTRUCTORS and full not in LABELS and not is_record(full):
            refuse(f"refers to {printable(full)}, which no state dict needs (no code was run)", ASK_FOR_STATE_DICT)
        self.push(Name(full))

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


def make_tensor(pickle: Pickle, storage: Any, offset: Any, shape: Any, stride: Any, *rest: Any) -> Tensor:
    """A call of any version of _rebuild_tensor; `rest`: requires_grad, hooks, from version 3 a dtype, metadata."""
    if type(storage) is not Storage or type(shape) is not tuple or type(stride) is not tuple:
        refuse("holds a tensor without storage or shape")
    numbers = (offset, *shape[:MAX_AXES], *stride[:MAX_AXES])
    if not all(type(number) is int for number in numbers) or len(numbers) != 1 + len(shape) + len(stride):
        refuse("holds a tensor whose shape is not a few integers")
    if any(type(part) is dict and part for part in rest):
        refuse("holds a tensor with hooks, or a lazily negated or conjugated one", ASK_FOR_STATE_DICT)
    dtypes = [part.full.removeprefix("torch.") for part in rest if type(part) is Name]
    pickle.tensors.append((storage.number, dtypes[0] if dtypes else storage.dtype, offset, shape, stride))
    return Tensor(len(pickle.tensors) - 1)


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
    **{f"torch._utils._rebuild_tensor{version}": make_tensor for version in ("", "_v2", "_v3")},
    "torch._utils._rebuild_parameter": lambda pickle, data, *rest: data,
    "collections.OrderedDict": make_dict,
    "collections.defaultdict": make_dict,
    "builtins.set": make_set,
    "builtins.frozenset": make_set,
    "builtins.bytes": make_bytes,
    "_codecs.encode": make_bytes,
}


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
