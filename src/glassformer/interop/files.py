"""Files from elsewhere, read with care: nothing in them is run, followed out of their directory, or believed."""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.errors import DirectoryError
from glassformer.interop.names import Names

LARGEST = 64 * 2**20
"""Bytes of a file other than weights that are read: the vocabularies of the largest models take 30 MB."""


def inside(directory: Path, name: str) -> Path:
    """The file of this name in the directory. A link may not lead out of it, but into the store of a hub's cache."""
    if name != Path(name).name or name in ("", ".", "..") or "\0" in name or len(os.fsencode(name)) > 255:
        raise DirectoryError(f"{directory} names {name!r}, which is not the name of a file in it.")
    path = directory / name
    if path.is_symlink():
        target, home = path.resolve(), directory.resolve()
        blobs = home.parent.parent / "blobs"  # where huggingface_hub keeps what its snapshots link to
        if not any(target.is_relative_to(place) for place in (home, blobs)):
            raise DirectoryError(f"{path} is a link to {target}, outside of its directory: copy the file into it.")
    return path


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """A whole file that is not larger than it should be."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            raise DirectoryError(f"{path} is not a file.")
        if about.st_size > most:
            raise DirectoryError(f"{path} has {about.st_size:,} bytes; such a file may have {most:,}.")
        return path.read_bytes()
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file."""
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DirectoryError(f"{path} is not readable JSON: {why}.") from None
    if not isinstance(found, dict):
        raise DirectoryError(f"{path} is JSON, but not an object.")
    return found


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """An object as JSON that people can read too."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_safetensors(directory: Path) -> dict[str, Tensor]:
    """All tensors of model.safetensors, or of the parts that its index names; mapped from the file, not copied."""
    index = directory / "model.safetensors.index.json"
    if index.exists():
        where = read_json(inside(directory, index.name)).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
            raise DirectoryError(f"{index} does not say in which file each tensor is (weight_map).")
        names = sorted(set(where.values()))
    else:
        names = ["model.safetensors"]
    tensors: dict[str, Tensor] = {}
    for name in names:
        path = inside(directory, name)
        try:
            with safe_open(path, framework="pt") as file:
                tensors |= {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no dict)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise DirectoryError(f"{path} is not a readable safetensors file: {error}.") from None
    return tensors


def renamed(
    tensors: Mapping[str, Tensor], names: Names, where: Path, passed_over: Iterable[str] = ()
) -> dict[str, Tensor]:
    """The same tensors under our names, in float32; those that nobody knows are named together."""
    found: dict[str, Tensor] = {}
    unknown = []
    ignored = set(passed_over)
    for name, tensor in tensors.items():
        if name in ignored:
            continue
        ours = names.ours(name)
        if ours is None:
            unknown.append(name)
        elif ours in found and not torch.equal(found[ours], tensor.float()):
            raise DirectoryError(f"{where} holds {ours} twice with different numbers; {name} is one of them.")
        else:
            found[ours] = tensor.float() if tensor.is_floating_point() else tensor
    if unknown:
        some = ", ".join(sorted(unknown)[:20]) + (f" and {len(unknown) - 20} more" if len(unknown) > 20 else "")
        raise DirectoryError(f"{where} holds tensors that this kind of model does not have: {some}.")
    return found


def read_numbers(directory: Path, name: str) -> dict[str, int]:
    """The number of each piece from a JSON file."""
    path = inside(directory, name)
    numbers = read_json(path)
    if not all(type(number) is int for number in numbers.values()):
        raise DirectoryError(f"{path} does not give each piece a number.")
    return numbers
