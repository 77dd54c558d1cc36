"""Model lookup: from a model directory, a run directory or a built-in name to the model directory."""

import os
from importlib.resources import files
from pathlib import Path

from glassformer.atomic_directory import MANIFEST
from glassformer.data import AnyTokenizer, read_tokenizer
from glassformer.errors import DirectoryError

BUILT_IN_LANGUAGES = {"street": ("en", "de")}
"""The languages of the built-in models, by name."""
BUILT_IN = tuple(BUILT_IN_LANGUAGES)
MAX_CONFIG_BYTES = 2**20


def find_model(path: str | os.PathLike[str]) -> Path:
    """The model directory for a path: the directory itself, a run's best model, or a built-in model."""
    directory = Path(path)
    if (directory / "config.json").exists():
        if not (directory / MANIFEST).exists():
            raise DirectoryError(
                f"{directory} is not a Glassformer model: it has no {MANIFEST}. If it is another program's model, "
                f"`glassformer convert {directory} NEW` converts it."
            )
        return directory
    if directory.is_dir():
        for kind in ("best", "step"):
            if checkpoints := checkpoint_directories(directory, kind):
                return checkpoints[-1]
        raise DirectoryError(
            f"{directory} contains no Glassformer model: expected config.json, or a run's best-N or step-N directory. "
            f"If it is another program's model, `glassformer convert {directory} NEW` converts it."
        )
    if str(path) in BUILT_IN:
        return Path(str(files("glassformer") / "builtin" / "models" / str(path)))
    raise DirectoryError(
        f"There is no file or directory {directory}, and no built-in model of that name ({', '.join(BUILT_IN)})."
    )


def is_glassformer_model(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a glassformer model; Hugging Face directories also have a config.json, but no manifest."""
    directory = Path(path)
    try:
        if (directory / "config.json").exists():
            return (directory / MANIFEST).exists() and not _has_model_type(directory / "config.json")
    except OSError:  # not a valid file name: format detection reports it
        return False
    return str(path) in BUILT_IN or any(checkpoint_directories(directory, kind) for kind in ("best", "step"))


def _has_model_type(config: Path) -> bool:
    """Whether a config.json is Hugging Face's, which names the family; ours does not."""
    if not config.is_file():  # a pipe could block
        return False
    with config.open("rb") as file:
        return b'"model_type"' in file.read(MAX_CONFIG_BYTES)


def tokenizer_of(directory: Path) -> AnyTokenizer:
    """The tokenizer of a model directory."""
    if not (directory / "tokenizer").is_dir():
        raise DirectoryError(f"{directory} has no tokenizer: the model takes token ids, not text.")
    return read_tokenizer(directory / "tokenizer")


def checkpoint_directories(directory: Path, kind: str) -> list[Path]:
    """The directories `kind-1`, `kind-2`, ... of a run, sorted by number."""
    paths = [path for path in directory.glob(f"{kind}-*") if path.name.removeprefix(f"{kind}-").isdigit()]
    return sorted(paths, key=lambda path: int(path.name.removeprefix(f"{kind}-")))
