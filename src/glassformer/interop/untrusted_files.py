"""Files from elsewhere, read with care: nothing in them is run, followed out of their directory, or believed."""

import json
import os
import re
import reprlib
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError, DirectoryError, SettingsError
from glassformer.interop.name_table import NameTable
from glassformer.model.directory import listed, read_weights
from glassformer.settings import no_constant, once_each

LARGEST = 2**23
"""Bytes of a file other than weights that are read: the SentencePiece models of 256,000 pieces have 5 million."""
LARGEST_JSON = 2**20
"""Of settings. Once read, JSON may take 25 times as much; none that is known has a tenth of this."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HALF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def inside(directory: Path, name: str) -> Path:
    """The file of this name in the directory. A link may not lead out of it, but into the store of a hub's cache."""
    if name != Path(name).name or name in ("", ".", "..") or not name.isprintable() or len(name.encode()) > 255:
        raise DirectoryError(f"{directory} names {reprlib.repr(name)}, which is not the name of a file in it.")
    path = directory / name
    if path.is_symlink():
        try:
            target, home = path.resolve(), directory.resolve()
        except (OSError, RuntimeError):  # as Python up to 3.12 reports a loop
            raise DirectoryError(f"{path} is a link that leads nowhere: copy the file into its place.") from None
        places = [home]
        if home.parent.name == "snapshots":  # huggingface_hub keeps what its snapshots link to in blobs beside them
            places.append(home.parent.parent / "blobs")
        if not any(target.is_relative_to(place) for place in places):
            raise DirectoryError(f"{path} is a link to {target}, outside of its directory: copy the file into it.")
    return path


def size_of(path: Path) -> int:
    """The bytes of a file; a pipe or a device in its place would be waited for, and is refused."""
    try:
        about = os.stat(path)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(about.st_mode):
        raise DirectoryError(f"{path} is not a file: put one in its place.")
    return about.st_size


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """A whole file that is not larger than it should be."""
    size = size_of(path)
    if size > most:
        raise DirectoryError(f"{path} has {size:,} bytes; such a file may have {most:,}.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None


def read_json(path: Path, most: int = LARGEST_JSON) -> dict[str, Any]:
    """An object from a JSON file."""
    content = read_bytes(path, most)
    try:
        found = json.loads(content, object_pairs_hook=once_each, parse_constant=no_constant)
        if HALF_A_PAIR.search(content):
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise DirectoryError(f"{path} is not readable JSON: it is nested too deeply.") from None
    except ValueError as error:
        half = isinstance(error, UnicodeEncodeError)
        why = "it has half of a surrogate pair, which is no character" if half else error
        raise DirectoryError(f"{path} is not readable JSON: {why}.") from None
    if not isinstance(found, dict):
        raise DirectoryError(f"{path} is JSON, but not an object.")
    return found


@contextmanager
def naming(where: Path | str) -> Iterator[None]:
    """What is wrong with settings or data inside is said of this file or directory."""
    try:
        yield
    except (SettingsError, DataError) as error:
        raise DirectoryError(f"{where}: {error}") from None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """An object as JSON that people can read too."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_safetensors(directory: Path) -> dict[str, Tensor]:
    """All tensors of model.safetensors, or of the parts that its index names; mapped from the file, not copied."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return _tensors(inside(directory, "model.safetensors"))
    where = read_json(inside(directory, index.name)).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
        raise DirectoryError(f"{index} does not say in which file each tensor is (weight_map).")
    found: dict[str, Tensor] = {}
    for name in sorted(set(where.values())):
        more = _tensors(inside(directory, name))
        if twice := found.keys() & more.keys():
            raise DirectoryError(f"{directory / name} holds tensors that another part holds too: {listed(twice)}.")
        found |= more
    if missing := where.keys() - found.keys():
        raise DirectoryError(f"{index} names tensors that none of its parts holds: {listed(missing)}.")
    return found


def _tensors(path: Path) -> dict[str, Tensor]:
    size_of(path)  # of what is not a file, it says so
    return read_weights(path)


def renamed(
    tensors: Mapping[str, Tensor], names: NameTable, where: Path, passed_over: Iterable[str] = ()
) -> dict[str, Tensor]:
    """The same tensors under our names, in float32; those that nobody knows are named together."""
    found: dict[str, Tensor] = {}
    unknown = []
    ignored = set(passed_over)
    for name, tensor in tensors.items():
        if name in ignored:
            continue
        ours = names.ours(str(name))  # a checkpoint's name may be anything
        if ours is None:
            unknown.append(str(name))
        elif ours in found and not torch.equal(found[ours], tensor.float()):
            raise DirectoryError(f"{where} holds the same tensor with other numbers as {listed([name])}.")
        elif tensor.dtype not in FLOATS:
            raise DirectoryError(f"{where} holds {listed([name])} as {tensor.dtype}: save it anew in float32.")
        else:
            found[ours] = tensor.float()
    if unknown:
        raise DirectoryError(f"{where} holds tensors that this kind of model does not have: {listed(unknown)}.")
    return found


def same(weights: Mapping[str, Tensor], one: str, other: str) -> bool:
    """Whether both are there, with the same numbers."""
    first, second = weights.get(one), weights.get(other)
    return first is not None and second is not None and torch.equal(first, second)


def shape_of(weights: Mapping[str, Tensor], name: str, where: Path | str) -> tuple[int, int]:
    """Rows and columns of a matrix that must be there."""
    if name not in weights or weights[name].dim() != 2:
        raise DirectoryError(f"{where} lacks the matrix {name}.")
    rows, columns = weights[name].shape
    return rows, columns
