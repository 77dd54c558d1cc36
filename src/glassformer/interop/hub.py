"""Models by name from the Hugging Face hub (the extra `hub`): downloaded by `huggingface_hub`, into its cache."""

import re
from importlib import import_module
from pathlib import Path

from glassformer.errors import InputError
from glassformer.extras import install_command

DOWNLOADED_FILES = ("*.json", "*.safetensors", "*.spm", "*.model", "merges.txt")
"""Patterns of the files to download; pickles and code are not downloaded."""


def is_hub_name(name: str) -> bool:
    """Whether a string could be the name of a model on the hub: owner/model."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", name) is not None


def from_hub(name: str) -> Path:
    """Download a hub model unless it is cached; returns its local directory. HF_HUB_OFFLINE=1 uses the cache only."""
    try:
        hub = import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            f"There is no directory {name}. To download it from the Hugging Face hub, first run "
            f"{install_command('hub')}."
        ) from None
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(DOWNLOADED_FILES)))
    except Exception as error:  # its errors (network, hub, names) have no common base class
        if any(kind.__name__ == "RepositoryNotFoundError" for kind in type(error).__mro__):
            raise InputError(
                f"There is no directory {name}, and the Hugging Face hub has no public model of that name."
            ) from None
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"There is no directory {name}, and it could not be downloaded from the Hugging Face hub. Is the network "
            f"available? {why}"
        ) from None
