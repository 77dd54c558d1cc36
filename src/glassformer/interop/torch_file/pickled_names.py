"""Globals that a pickle may name, and the placeholders that stand for them and for what they make."""

from typing import Any, NamedTuple

from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, refuse


class Name(NamedTuple):
    """A class or function that the pickle names: its name only, never the object."""

    full: str


class Storage(NamedTuple):
    """A storage by its index in the file, with the dtype of its tensors unless they state another."""

    number: int
    dtype: str


class Tensor(NamedTuple):
    """A tensor by its index in the file."""

    number: int


class Record:
    """An object of another package's class: constructor arguments and attributes."""

    __slots__ = ("arguments", "attributes", "name")

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.attributes: Any = None


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
RECORDS = {
    "argparse.Namespace",
    "pathlib.PosixPath",
    "torch.Size",
    "torch.device",
    "numpy.dtype",
    *NUMPY_FUNCTIONS,
    *("_operator.getitem", "builtins.type"),  # pickled settings call them for types such as `Optional[int]`
}
"""Globals whose calls become records, which are inert."""
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


def is_record(full: str) -> bool:
    return full in RECORDS or full.split(".")[0] in RECORD_PACKAGES


def checked_key(key: Any) -> Any:
    """Refuse dict keys that are not plain: hashing nested values can be made arbitrarily expensive."""
    plain = (str, int, float, bool, bytes, type(None))
    if not all(type(part) in plain for part in (key if type(key) is tuple else (key,))):
        refuse("has a dict key or set item that is not a plain value", ASK_FOR_STATE_DICT)
    return key
