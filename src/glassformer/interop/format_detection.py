"""Format detection: opens another program's model from a path or hub name, recognised by its files."""

import os
import reprlib
import stat
from dataclasses import replace
from pathlib import Path

from glassformer.errors import DirectoryError, InputError
from glassformer.interop.fairseq import is_fairseq, open_fairseq
from glassformer.interop.hub import from_hub, is_hub_name
from glassformer.interop.hugging_face import is_hugging_face, open_hugging_face
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.marian import open_marian
from glassformer.interop.torch_file.torch_file_reader import open_torch_file
from glassformer.interop.tutorial_notebook import is_tutorial, open_tutorial
from glassformer.interop.untrusted_files import inside
from glassformer.model.directory import listed

PICKLE_SUFFIXES = (".pt", ".pth", ".ckpt")
MARIAN_SUFFIXES = (".npz", ".bin")
CHECKPOINT_KEYS = ("model", "args", "cfg")
"""Keys of a fairseq checkpoint that are read; the optimiser state is skipped."""
UNFILTERED = (
    "The checkpoint was read in a process with limits on files, memory and time, but without a system call filter: "
    "this system has no seccomp, or forbids its use."
)


def open_imported(
    path: Path,
    *,
    allow_pickle: bool = False,
    source_language: str | None = None,
    target_language: str | None = None,
    heads: int | None = None,
) -> ImportedModel:
    """Open another program's model; the format is detected from the files.

    The languages select fairseq's dictionaries, or the language pair of a multilingual model; `heads` is for files
    that do not store the number of heads.
    """
    try:
        imported = _open(_locate(path), allow_pickle, source_language, target_language, heads)
    except OSError as error:  # such as a directory without read permission
        raise DirectoryError(f"{path} cannot be read: {error.strerror or error}.") from None
    if imported.tokenizer is None or not imported.tokenizer.settings.languages:
        return imported
    return replace(imported, tokenizer=imported.tokenizer.with_languages(source_language, target_language))


def is_model_file(path: Path) -> bool:
    """Whether a file has a name that model files have."""
    return path.suffix in (*PICKLE_SUFFIXES, *MARIAN_SUFFIXES)


def is_importable(path: Path) -> bool:
    """Whether there is something to detect a format of: an existing path, or a name that could be on the hub."""
    try:
        return path.exists() or is_hub_name(path.as_posix())
    except (OSError, ValueError):  # not a valid path: opening it says why
        return True


def _locate(path: Path) -> Path:
    """Local path of a model: the path itself if it exists; else the directory of the hub model of that name."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if is_hub_name(path.as_posix()):
            return from_hub(path.as_posix())
        raise DirectoryError(f"There is no file or directory {path}.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{reprlib.repr(str(path))} is not a valid model path: {why}.") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a pipe or a device could block
        raise DirectoryError(f"{path} is neither a file nor a directory: give the path of a model.")
    return path


def _open(path: Path, allow_pickle: bool, source: str | None, target: str | None, heads: int | None) -> ImportedModel:
    if path.is_dir() and is_hugging_face(path):
        return open_hugging_face(path)
    if checkpoint := _find_checkpoint(path):
        if not allow_pickle:
            raise InputError(
                f"{checkpoint} is a pickle, a format that can run code when it is loaded. `glassformer convert "
                "--allow-pickle` (in Python, allow_pickle=True) reads it in a sandbox, without running any code."
            )
        return _open_checkpoint(checkpoint, source, target, heads)
    if _may_be_marian(path):
        return open_marian(path)
    raise DirectoryError(
        f"{path} has an unrecognised format. Expected a Glassformer model or run directory, a Hugging Face directory "
        "(config.json and model.safetensors), a Marian model (.npz or .bin), or a checkpoint (.pt) of fairseq or the "
        "pytorch-seq2seq tutorial."
    )


def _open_checkpoint(path: Path, source: str | None, target: str | None, heads: int | None) -> ImportedModel:
    file = open_torch_file(path, lambda key: key in CHECKPOINT_KEYS or "." in key)
    saved = file.contents
    if is_fairseq(saved):
        imported = open_fairseq(saved, path, source, target)
    elif is_tutorial(saved):
        imported = open_tutorial(saved, path, heads)
    else:
        keys = listed(saved, 4)
        raise DirectoryError(
            f"{path} is a checkpoint of neither fairseq nor the pytorch-seq2seq tutorial: its keys are {keys}."
        )
    return imported if file.filtered else replace(imported, notes=[*imported.notes, UNFILTERED])


def _find_checkpoint(path: Path) -> Path | None:
    """The checkpoint at a path: the file itself, or the best one of a directory."""
    if path.is_file():
        return path if path.suffix in PICKLE_SUFFIXES else None
    places = (path, path / "checkpoints")
    checkpoints = [file for place in places for file in sorted(place.glob("*")) if file.suffix in PICKLE_SUFFIXES]
    if not checkpoints:
        return None
    best = [file for file in checkpoints if file.name in ("checkpoint_best.pt", "model.pt")] or checkpoints
    if len(best) > 1:
        names = listed([file.name for file in checkpoints], 5)
        raise InputError(f"{path} has several checkpoints ({names}): give the path of one of them.")
    return inside(best[0].parent, best[0].name)


def _may_be_marian(path: Path) -> bool:
    if path.is_file():
        return path.suffix in MARIAN_SUFFIXES
    return any(file.suffix in (*MARIAN_SUFFIXES, ".yml") for file in path.iterdir())
