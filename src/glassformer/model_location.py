"""Where models stand: in a directory of their own, in a run, or built in. Knows nothing of what they are for."""

import os
from importlib.resources import files
from pathlib import Path

from glassformer.atomic_directory import MANIFEST
from glassformer.data import AnyTokenizer, read_tokenizer
from glassformer.errors import DirectoryError

BUILT_IN = ("street",)


def find_model(path: str | os.PathLike[str]) -> Path:
    """The model directory meant: itself, a run's best model, or a built-in one."""
    directory = Path(path)
    if (directory / "config.json").exists():
        if not (directory / MANIFEST).exists():
            raise DirectoryError(
                f"{directory} is not one of ours, since it has no {MANIFEST}: if it is another program's model, "
                f"`glassformer convert {directory} NEW` makes it one."
            )
        return directory
    if directory.is_dir():
        for kind in ("best", "step"):
            if found := numbered(directory, kind):
                return found[-1]
        raise DirectoryError(
            f"{directory} holds no model of ours: neither config.json nor best-... or step-... is in it. If it is "
            "another program's, `glassformer convert` makes it one."
        )
    if str(path) in BUILT_IN:
        return Path(str(files("glassformer") / "builtin" / "models" / str(path)))
    raise DirectoryError(f"There is no directory {directory}, and no built-in model of that name ({BUILT_IN[0]} is).")


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Whether a model of ours is meant; else it may be another program's, which also calls its settings config.json."""
    directory = Path(path)
    try:
        if (directory / "config.json").exists():
            return (directory / MANIFEST).exists()
    except OSError:  # no name of a file: the door will say so
        return False
    return str(path) in BUILT_IN or any(numbered(directory, kind) for kind in ("best", "step"))


def tokenizer_of(directory: Path) -> AnyTokenizer:
    """The tokenizer beside a model."""
    if not (directory / "tokenizer").is_dir():
        raise DirectoryError(f"{directory} has no tokenizer beside its model: it takes ids, not text.")
    return read_tokenizer(directory / "tokenizer")


def numbered(directory: Path, kind: str) -> list[Path]:
    """`kind-1`, `kind-2`, ... of a run directory, by their number."""
    found = [path for path in directory.glob(f"{kind}-*") if path.name.removeprefix(f"{kind}-").isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(f"{kind}-")))
