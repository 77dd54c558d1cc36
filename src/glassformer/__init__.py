"""Glassformer: the encoder-decoder Transformer you can train, run fast, and see through.

Names are imported when they are first used, so that the command line answers before torch is loaded.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.errors import GlassformerError
    from glassformer.inspection.tracing.record import record
    from glassformer.inspection.tracing.trace import Trace
    from glassformer.loading import load
    from glassformer.model import ModelConfig, Transformer, load_model, preset, save_model, taps
    from glassformer.notebook import explore
    from glassformer.training import train
    from glassformer.translator import Translator

__version__ = "0.1.0"

# Public names, in the order in which one meets them, and the rooms they live in.
_HOME = {
    "train": "training",
    "load": "loading",
    "Translator": "translator",
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
    "load",
    "load_model",
    "preset",
    "record",
    "save_model",
    "taps",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    collecting = gc.isenabled()
    gc.disable()  # importing makes no garbage, and walking through all of torch to find none takes a third of the time
    try:
        value = getattr(import_module(f"glassformer.{_HOME[name]}"), name)
    finally:
        if collecting:
            gc.enable()
    globals()[name] = value  # from now on found without this function
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
