"""The way in: a path, and whose files these are."""

import os
import reprlib
import stat
from dataclasses import replace
from pathlib import Path

from glassformer.errors import DirectoryError, InputError
from glassformer.interop.fairseq import is_fairseq, open_fairseq
from glassformer.interop.hub import from_hub, is_hub_name
from glassformer.interop.hugging_face import is_hugging_face, open_hugging_face
from glassformer.interop.imported import ImportedModel
from glassformer.interop.marian import open_marian
from glassformer.interop.torch_file import read_torch_file
from glassformer.interop.tutorial import is_tutorial, open_tutorial
from glassformer.interop.untrusted_files import inside
from glassformer.model.directory import listed

PICKLES = (".pt", ".pth", ".ckpt")
WANTED = ("model", "args", "cfg")
"""Of a checkpoint; the optimiser's part is left where it is."""


def open_foreign(
    path: Path,
    *,
    allow_pickle: bool = False,
    source_language: str | None = None,
    target_language: str | None = None,
    heads: int | None = None,
) -> ImportedModel:
    """A model of another program's, recognised by its files.

    The languages choose fairseq's dictionaries, or two of the many that a model knows; `heads` is for files that do
    not say how many there are.
    """
    try:
        opened = _opened(_found(path), allow_pickle, source_language, target_language, heads)
    except OSError as error:  # such as a directory that may not be looked into
        raise DirectoryError(f"{path} cannot be read: {error.strerror or error}.") from None
    if opened.tokenizer is None or not opened.tokenizer.settings.languages:
        return opened
    return replace(opened, tokenizer=opened.tokenizer.between(source_language, target_language))


def _found(path: Path) -> Path:
    """The path itself, if it is one; else where the hub's library put the model of that name."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if is_hub_name(path.as_posix()):
            return from_hub(path.as_posix())
        raise DirectoryError(f"There is no {path}.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{reprlib.repr(str(path))} is not a path of a model: {why}.") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe or a device would be waited for
        raise DirectoryError(f"{path} is neither a file nor a directory: give the path of a model.")
    return path


def _opened(path: Path, allow_pickle: bool, source: str | None, target: str | None, heads: int | None) -> ImportedModel:
    if path.is_dir() and is_hugging_face(path):
        return open_hugging_face(path)
    if checkpoint := _checkpoint(path):
        if not allow_pickle:
            raise InputError(
                f"{checkpoint} is a pickle, a kind of file that could run code where others open it. Here it is read "
                "without running any, apart from everything else: say --allow-pickle if you want that."
            )
        return _open_checkpoint(checkpoint, source, target, heads)
    if _may_be_marian(path):
        return open_marian(path)
    raise DirectoryError(
        f"{path} is none that is known here: Hugging Face's have config.json and model.safetensors, Marian's an .npz "
        "or .bin, fairseq's and the tutorial's a .pt."
    )


def _open_checkpoint(path: Path, source: str | None, target: str | None, heads: int | None) -> ImportedModel:
    saved = read_torch_file(path, lambda key: key in WANTED or "." in key)
    if is_fairseq(saved):
        return open_fairseq(saved, path, source, target)
    if is_tutorial(saved):
        return open_tutorial(saved, path, heads)
    some = listed(saved, 4)
    raise DirectoryError(f"{path} is a checkpoint, but neither fairseq's nor the tutorial's: it holds {some}.")


def _checkpoint(path: Path) -> Path | None:
    """The checkpoint that is meant: a file, or the best of a directory's."""
    if path.is_file():
        return path if path.suffix in PICKLES else None
    found = [one for place in (path, path / "checkpoints") for one in sorted(place.glob("*")) if one.suffix in PICKLES]
    best = [one for one in found if one.name in ("checkpoint_best.pt", "model.pt")]
    if not found:
        return None
    if len(best or found) > 1:
        some = listed([one.name for one in found], 5)
        raise InputError(f"{path} has several checkpoints ({some}): name the one.")
    chosen = (best or found)[0]
    return inside(chosen.parent, chosen.name)


def _may_be_marian(path: Path) -> bool:
    if path.is_file():
        return path.suffix in (".npz", ".bin")
    return any(one.suffix in (".npz", ".bin", ".yml") for one in path.iterdir())
