"""Sealed directories: built aside, checksummed, and put in place by one rename, so that they are whole or not there.

The seal is `manifest.json`: size and sha256 of every file it vouches for. Knows nothing of what the files mean.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.errors import DirectoryError, SettingsError
from glassformer.settings import read_table

MANIFEST = "manifest.json"
ASIDE = ".building-"  # how the name of a directory under construction begins


@contextmanager
def building(target: Path, seal: bool = True) -> Iterator[Path]:
    """A directory to write into; when the block ends well it is sealed and becomes `target`, else it vanishes.

    Killed at any instruction, `target` is complete or absent. An existing `target` is never touched. Without a seal
    it is a directory for other programs.
    """
    refuse_existing(target)
    aside = target.parent / f"{ASIDE}{target.name}-{uuid.uuid4().hex[:8]}"
    try:
        aside.mkdir(parents=True)
        yield aside
        if seal:
            _seal(aside)
        _sync_all(aside)
        os.rename(aside, target)  # onto a directory with files in it, the system itself refuses
        _sync(target.parent)
    except OSError as error:
        _discard(aside)
        raise DirectoryError(f"{target} cannot be written: {error.strerror or error}.") from error
    except BaseException:
        _discard(aside)
        raise


def replace_file(path: Path, contents: bytes) -> None:
    """Give a file new contents in one go: whoever reads it finds the old or the new."""
    aside = path.with_name(f".{path.name}")
    try:
        aside.write_bytes(contents)
        aside.replace(path)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be written: {error.strerror or error}.") from error


def add_file(directory: Path, name: str, contents: bytes) -> None:
    """One more file of a sealed directory, or another in its place. The directory verifies at every instant.

    The old one is first taken from the manifest, which is replaced in one go; then the file is; then the manifest
    names it. Killed in between, the directory is whole and has no such file.
    """
    path, files = directory / MANIFEST, _read_manifest(directory / MANIFEST)
    try:
        if files.pop(name, None) is not None:
            _replace_for_good(path, _manifest_bytes(files))
        _replace_for_good(directory / name, contents)
        files[name] = _entry(directory / name)
        _replace_for_good(path, _manifest_bytes(dict(sorted(files.items()))))
    except OSError as error:
        raise DirectoryError(f"{directory / name} cannot be written: {error.strerror or error}.") from error


def read_file(directory: Path, name: str) -> bytes | None:
    """The contents of one sealed file, found whole; None where the manifest names no such file."""
    wanted = _read_manifest(directory / MANIFEST).get(name)
    if wanted is None:
        return None
    if damage := _damage(directory / name, wanted):
        raise DirectoryError(f"{directory} is damaged: {damage}. Use another copy of it.")
    return (directory / name).read_bytes()


def refuse_existing(target: Path) -> None:
    """Nothing is overwritten: whoever wants the name must first move what has it."""
    if os.path.lexists(target):
        raise DirectoryError(f"{target} exists already: choose another name, or move it away first.")


def verify(directory: Path) -> list[str]:
    """The names of the sealed files, after each was found whole; every damage is reported at once."""
    if not directory.is_dir():
        raise DirectoryError(f"There is no directory {directory}.")
    files = _read_manifest(directory / MANIFEST)
    damages = [found for name, entry in files.items() if (found := _damage(directory / name, entry))]
    if damages:
        raise DirectoryError(f"{directory} is damaged: {'; '.join(damages)}. Use another copy of it.")
    return list(files)


def _seal(directory: Path) -> None:
    names = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    entries = {name: _entry(directory / name) for name in names}
    (directory / MANIFEST).write_bytes(_manifest_bytes(entries))


def _manifest_bytes(files: dict[str, Any]) -> bytes:
    manifest = {"format": "glassformer", "version": 1, "files": files}
    return (json.dumps(manifest, indent=2) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        raise DirectoryError(f"{path.parent} has no {MANIFEST}: it is not a glassformer directory, or not a whole one.")
    try:
        table = read_table(path)
    except SettingsError as error:
        raise DirectoryError(str(error)) from None
    files = table.get("files")
    # One way of writing it: so a changed byte anywhere in the manifest is found, even between the words.
    if not isinstance(files, dict) or path.read_bytes() != _manifest_bytes(files):
        raise DirectoryError(f"{path} was changed, or written by a newer glassformer: use another copy, or upgrade.")
    for name, entry in files.items():
        # Nothing outside the directory is ever opened, whatever a stranger's manifest says.
        if Path(name).is_absolute() or ".." in Path(name).parts or not _is_entry(entry):
            raise DirectoryError(f"{path} has an entry that no glassformer writes: {name!r}.")
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


def _damage(path: Path, wanted: dict[str, Any]) -> str | None:
    try:
        if path.is_symlink() or not path.is_file():
            return f"{path.name} is missing"
        if path.stat().st_size != wanted["bytes"]:
            return f"{path.name} has {path.stat().st_size:,} bytes instead of {wanted['bytes']:,}"
        return None if _entry(path) == wanted else f"{path.name} has other contents than when it was saved"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"


def _replace_for_good(path: Path, contents: bytes) -> None:
    """As `replace_file`, and a power cut does not undo it."""
    aside = path.with_name(f".{path.name}")
    aside.write_bytes(contents)
    _sync(aside)
    aside.replace(path)
    _sync(path.parent)


def _sync_all(directory: Path) -> None:
    """Contents before names, and everything before the rename: else a power cut could leave zeros behind a name."""
    for path in directory.rglob("*"):
        _sync(path)
    _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(directory: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(directory)
