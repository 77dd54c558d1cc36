"""Readers for untrusted files: no code is run, no link out of the directory is followed, every size is checked."""

import json
import os
import re
import reprlib
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import DataError, DirectoryError, SettingsError
from glassformer.interop.name_table import NameTable
from glassformer.model.directory import listed
from glassformer.model.saved_tensor import FLOATS, SavedTensor
from glassformer.model.weight_files import read_tensors
from glassformer.settings import reject_constant, reject_duplicate_keys

MAX_NON_WEIGHT_BYTES = 2**23
"""Size limit of a file other than weights: SentencePiece models of 256,000 pieces have 5 million bytes."""
MAX_JSON_BYTES = 2**20
"""Size limit of settings. Parsed JSON may take 25 times its size; known settings files have under a tenth of this."""
Weights = dict[str, NDArray[np.float32]]
"""Weights by our names."""
SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def inside(directory: Path, name: str) -> Path:
    """The path of a file in a directory. Symbolic links out of it are refused, except into the blobs of a hub cache."""
    if name != Path(name).name or name in ("", ".", "..") or not name.isprintable() or len(name.encode()) > 255:
        raise DirectoryError(f"{directory} refers to {reprlib.repr(name)}, which is not a file name in that directory.")
    path = directory / name
    if path.is_symlink():
        try:
            target, home = path.resolve(), directory.resolve()
        except (OSError, RuntimeError):  # how Python up to 3.12 reports a loop
            raise DirectoryError(f"{path} is a broken symbolic link: replace it with the file.") from None
        allowed = [home]
        if home.parent.name == "snapshots":  # huggingface_hub keeps the targets of its links in blobs/
            allowed.append(home.parent.parent / "blobs")
        if not any(target.is_relative_to(place) for place in allowed):
            raise DirectoryError(
                f"{path} is a symbolic link to {target}, outside its directory: replace it with the file."
            )
    return path


def file_size(path: Path) -> int:
    """The size of a regular file in bytes; pipes and devices are rejected, since reading them could block."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise DirectoryError(f"{path} is not a regular file: replace it with one.")
    return status.st_size


def read_bytes(path: Path, max_bytes: int = MAX_NON_WEIGHT_BYTES) -> bytes:
    """Read a file, if it is within the size limit."""
    size = file_size(path)
    if size > max_bytes:
        raise DirectoryError(f"{path} has {size:,} bytes; the limit for such a file is {max_bytes:,}.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Read a JSON file, which must hold an object."""
    content = read_bytes(path, max_bytes)
    try:
        value = json.loads(content, object_pairs_hook=reject_duplicate_keys, parse_constant=reject_constant)
        if SURROGATE_ESCAPE.search(content):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise DirectoryError(f"{path} is not readable JSON: it is nested too deeply.") from None
    except ValueError as error:
        lone = isinstance(error, UnicodeEncodeError)
        why = "it contains an unpaired surrogate, which is not a valid character" if lone else error
        raise DirectoryError(f"{path} is not readable JSON: {why}.") from None
    if not isinstance(value, dict):
        raise DirectoryError(f"{path} is JSON, but not an object.")
    return value


@contextmanager
def error_context(where: Path | str) -> Iterator[None]:
    """Prefix errors raised in the block, about settings or data, with this file or directory."""
    try:
        yield
    except (SettingsError, DataError) as error:
        raise DirectoryError(f"{where}: {error}") from None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as indented JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_safetensors(directory: Path) -> dict[str, SavedTensor]:
    """Read all tensors of model.safetensors, or of the shards in its index."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return _tensors(inside(directory, "model.safetensors"))
    shards = read_json(inside(directory, index.name)).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise DirectoryError(f"{index} does not map each tensor to a file (weight_map).")
    tensors: dict[str, SavedTensor] = {}
    for name in sorted(set(shards.values())):
        path = inside(directory, name)
        shard = _tensors(path)
        if duplicates := tensors.keys() & shard.keys():
            raise DirectoryError(f"{path} holds tensors that another shard holds too: {listed(duplicates)}.")
        tensors |= shard
    if missing := shards.keys() - tensors.keys():
        raise DirectoryError(f"{index} lists tensors that none of its shards holds: {listed(missing)}.")
    return tensors


def _tensors(path: Path) -> dict[str, SavedTensor]:
    file_size(path)  # rejects anything but a regular file
    return read_tensors(path)


def renamed(
    tensors: Mapping[str, SavedTensor], names: NameTable, where: Path, ignored: Collection[str] = ()
) -> Weights:
    """Another program's tensors under our names, in float32; unknown tensors are listed in one error."""
    weights: Weights = {}
    unknown = []
    for name, tensor in tensors.items():
        if name in ignored:
            continue
        ours = names.ours(str(name))  # a key of a checkpoint may have any type
        if ours is None:
            unknown.append(str(name))
        elif ours in weights and not np.array_equal(weights[ours], _float32(tensor)):
            raise DirectoryError(f"{where} holds conflicting versions of one tensor, among them {listed([name])}.")
        elif tensor.dtype not in FLOATS:
            raise DirectoryError(f"{where} holds {listed([name])} as {tensor.dtype}: save it again in float32.")
        else:
            weights[ours] = _float32(tensor)
    if unknown:
        raise DirectoryError(f"{where} holds tensors that this kind of model does not have: {listed(unknown)}.")
    return weights


def _float32(tensor: SavedTensor) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # an infinite weight is found, and named, when it is packed
        return tensor.values.astype(np.float32, copy=False)


def tensors_equal(weights: Mapping[str, NDArray[np.float32]], one: str, other: str) -> bool:
    """Whether two tensors, given by name, are present and equal."""
    first, second = weights.get(one), weights.get(other)
    return first is not None and second is not None and np.array_equal(first, second)


def matrix_shape(weights: Mapping[str, NDArray[np.float32]], name: str, where: Path | str) -> tuple[int, int]:
    """Rows and columns of a required matrix."""
    if name not in weights or weights[name].ndim != 2:
        raise DirectoryError(f"{where} lacks the matrix {name}.")
    rows, columns = weights[name].shape
    return rows, columns
