"""Models by their name on Hugging Face's hub (the extra `hub`): fetched by its own library, into its own cache."""

import re
from importlib import import_module
from pathlib import Path

from glassformer.errors import InputError

WANTED = ("*.json", "*.safetensors", "*.spm", "*.model", "merges.txt")
"""Files that are read here; pickles and code stay where they are."""


def is_hub_name(name: str) -> bool:
    """Whether it could be one: an owner and a model."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", name) is not None


def from_hub(name: str) -> Path:
    """The directory of a model on the hub, from the cache if it is there; HF_HUB_OFFLINE=1 asks nobody."""
    try:
        hub = import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            f"There is no directory {name}; to fetch it from Hugging Face's hub: `pip install 'glassformer[hub]'`."
        ) from None
    try:
        return Path(hub.snapshot_download(name, allow_patterns=list(WANTED)))
    except Exception as error:  # its errors have no common kind: of the network, of the hub, of names
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"There is no directory {name}, and the hub does not give a model of that name: {why}"
        ) from None
