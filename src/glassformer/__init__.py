"""Glassformer: the encoder-decoder Transformer you can train, run fast, and see through.

Public names are imported at first use, so that the command line starts without loading torch.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.extras import TRAINING, explained

if TYPE_CHECKING:
    from glassformer.errors import GlassformerError
    from glassformer.inspection.inspector import inspect
    from glassformer.inspection.tracing.record import record
    from glassformer.inspection.tracing.trace import Trace
    from glassformer.loading import load
    from glassformer.model import ModelConfig, Transformer, load_model, preset, save_model, taps
    from glassformer.notebook import explore
    from glassformer.training import train
    from glassformer.translator import Translator

__version__ = "0.1.0"

# Public names, roughly in the order of use, and the modules they are imported from.
_MODULES = {
    "train": "training",
    "load": "loading",
    "Translator": "translator",
    "inspect": "inspection",
    "explore": "notebook",
    "preset": "model",
    "ModelConfig": "model",
    "Transformer": "model",
    "save_model": "model",
    "load_model": "model",
    "taps": "model",
    "record": "inspection",
    "Trace": "inspection",
    "GlassformerError": "errors",
}

__all__ = [
    "GlassformerError",
    "ModelConfig",
    "Trace",
    "Transformer",
    "Translator",
    "explore",
    "inspect",
    "load",
    "load_model",
    "preset",
    "record",
    "save_model",
    "taps",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    collecting = gc.isenabled()
    gc.disable()  # importing creates no garbage, and collecting while torch is imported takes a third of the time
    try:
        with explained(TRAINING if name == "train" else None):
            value = getattr(import_module(f"glassformer.{_MODULES[name]}"), name)
    finally:
        if collecting:
            gc.enable()
    globals()[name] = value  # later lookups do not call this function
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
