"""Extras: packages that only some tasks need, and the one sentence about a missing one, with the line to type."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from glassformer.errors import MissingPackageError

EXTRAS = {
    "torch": "inspect",
    "jaxtyping": "inspect",
    "sacrebleu": "evaluate",
    "fastapi": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "quickjs": "figures",
    "resvg_py": "figures",
    "anywidget": "notebook",
    "huggingface_hub": "hub",
    "ctranslate2": "ct2",
    "onnx": "onnx",
    "onnxruntime": "onnx",
}
"""The extra that installs each package, where the task has none of its own: torch comes with `train`, too."""
TITLES = {"torch": "PyTorch", "fastapi": "FastAPI", "ctranslate2": "CTranslate2"}
TRAINING = "train"
"""The extra of the commands that train."""


def require(*packages: str, extra: str | None = None) -> None:
    """Raise an error if one of these packages is not installed; they are not imported."""
    for package in packages:
        if not is_installed(package):
            raise _missing(package, extra)


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # how a finder, or a placeholder in sys.modules, says that there is none
        return False


@contextmanager
def explained(extra: str | None = None) -> Iterator[None]:
    """Replace errors about packages that cannot be imported; `extra`: of the task in the block, if it has one."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise _missing(package, extra) from None


def install_command(extra: str) -> str:
    """The line to type that installs an extra."""
    return f"`pip install 'glassformer[{extra}]'`"


def _missing(package: str, extra: str | None) -> MissingPackageError:
    needs_torch = EXTRAS[package] == EXTRAS["torch"]
    extra = extra if extra is not None and needs_torch else EXTRAS[package]
    return MissingPackageError(f"{TITLES.get(package, package)} is not installed: {install_command(extra)}.")
