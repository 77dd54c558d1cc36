"""Atomic, checksummed directories: built under a temporary name and renamed once, so that they are complete or absent.

`manifest.json` has the size and sha256 of every file. Independent of what the files contain.
"""

import hashlib
import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.errors import DirectoryError, SettingsError
from glassformer.settings import read_table

MANIFEST = "manifest.json"
BUILDING_PREFIX = ".building-"  # prefix of the name of a directory under construction


@contextmanager
def building(target: Path, checksummed: bool = True) -> Iterator[Path]:
    """Yield a temporary directory to fill; on success it gets a manifest and is renamed to `target`, else deleted.

    If the process is killed at any instruction, `target` is complete or absent. An existing `target` is never modified.
    `checksummed=False` writes no manifest: a directory for other programs.
    """
    refuse_existing(target)
    temporary = target.parent / f"{BUILDING_PREFIX}{target.name}-{uuid.uuid4().hex[:8]}"
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if checksummed:
            _write_manifest(temporary)
        _sync_all(temporary)
        os.rename(temporary, target)  # the operating system refuses if target is a non-empty directory
        sync(target.parent)
    except OSError as error:
        _discard(temporary)
        raise DirectoryError(f"{target} cannot be written: {error.strerror or error}.") from error
    except BaseException:
        _discard(temporary)
        raise


def replace_file(path: Path, contents: bytes) -> None:
    """Replace the contents of a file atomically: readers see the old contents or the new."""
    temporary = path.with_name(f".{path.name}")
    try:
        temporary.write_bytes(contents)
        temporary.replace(path)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write in; on success it replaces the file `path` atomically, else it is deleted."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def add_file(directory: Path, name: str, contents: bytes) -> None:
    """Add a file to a checksummed directory, or replace one. The directory passes `verify` at every instant.

    An old entry is first removed from the manifest, which is replaced atomically; then the file is replaced; then the
    manifest gets the new entry. Killed in between, the directory is valid and does not list the file.
    """
    path, files = directory / MANIFEST, _read_manifest(directory / MANIFEST)
    try:
        if files.pop(name, None) is not None:
            _replace_durably(path, _manifest_bytes(files))
        _replace_durably(directory / name, contents)
        files[name] = _entry(directory / name)
        _replace_durably(path, _manifest_bytes(dict(sorted(files.items()))))
    except OSError as error:
        raise DirectoryError(f"{directory / name} cannot be written: {error.strerror or error}.") from error


def read_file(directory: Path, name: str) -> bytes | None:
    """The verified contents of one file of a checksummed directory; None if the manifest does not list it."""
    entry = _read_manifest(directory / MANIFEST).get(name)
    if entry is None:
        return None
    if damage := _damage(directory / name, entry):
        raise DirectoryError(f"{directory} is damaged: {damage}. Use another copy of it.")
    return (directory / name).read_bytes()


def make_directory(path: Path) -> None:
    """Create a directory and its parents, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise DirectoryError(f"{path} is a file: choose another name for the directory.") from None
    except OSError as error:
        raise DirectoryError(f"{path} cannot be written: {error.strerror or error}.") from None


def refuse_existing(target: Path) -> None:
    """Raise an error if `target` exists: nothing is ever overwritten."""
    if os.path.lexists(target):
        raise DirectoryError(
            f"{target} already exists, and nothing is overwritten: choose another name, or move it elsewhere first."
        )


def verify(directory: Path) -> list[str]:
    """Verify every file of the manifest and return their names; all damaged files are reported in one error."""
    if not directory.is_dir():
        raise DirectoryError(f"There is no directory {directory}.")
    files = _read_manifest(directory / MANIFEST)
    damages = [damage for name, entry in files.items() if (damage := _damage(directory / name, entry))]
    if damages:
        raise DirectoryError(f"{directory} is damaged: {'; '.join(damages)}. Use another copy of it.")
    return list(files)


def _write_manifest(directory: Path) -> None:
    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    entries = {name: _entry(directory / name) for name in names}
    (directory / MANIFEST).write_bytes(_manifest_bytes(entries))


def _manifest_bytes(files: dict[str, Any]) -> bytes:
    manifest = {"format": "glassformer", "version": 1, "files": files}
    return (json.dumps(manifest, indent=2) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        raise DirectoryError(
            f"{path.parent} has no {MANIFEST}: it is incomplete, or was not written by Glassformer. Use a complete "
            "copy; `glassformer convert` converts models of other programs."
        )
    try:
        table = read_table(path)
    except SettingsError as error:
        raise DirectoryError(str(error)) from None
    files = table.get("files")
    # The serialisation is canonical, so a changed byte anywhere in the manifest is detected, even in whitespace.
    if not isinstance(files, dict) or path.read_bytes() != _manifest_bytes(files):
        raise DirectoryError(
            f"{path} was edited, or written by a newer version of Glassformer: use another copy, or upgrade."
        )
    for name, entry in files.items():
        # Nothing outside the directory is ever opened, whatever an untrusted manifest says.
        if Path(name).is_absolute() or ".." in Path(name).parts or not _is_entry(entry):
            raise DirectoryError(f"{path} has an invalid entry: {name!r}. Use another copy of the directory.")
    return files


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == {"bytes", "sha256"}
        and type(entry["bytes"]) is int
        and isinstance(entry["sha256"], str)
    )


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _damage(path: Path, entry: dict[str, Any]) -> str | None:
    """What is wrong with a file, compared with its manifest entry; None if nothing is."""
    try:
        if path.is_symlink() or not path.is_file():
            return f"{path.name} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{path.name} has {path.stat().st_size:,} bytes instead of {entry['bytes']:,}"
        return None if _entry(path) == entry else f"{path.name} does not match its checksum"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"


def _replace_durably(path: Path, contents: bytes) -> None:
    """Replace the contents of a file atomically and with fsync, so that a power cut does not undo it."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(contents)
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


def _sync_all(directory: Path) -> None:
    """fsync contents before names, all before the directory is renamed: else a power cut could leave zeroed files."""
    for path in directory.rglob("*"):
        sync(path)
    sync(directory)


def sync(path: Path) -> None:
    """fsync a file or directory. Windows has none of directories, and wants a file to be open for writing."""
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(directory: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(directory)
