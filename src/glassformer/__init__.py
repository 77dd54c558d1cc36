"""Glassformer: the encoder-decoder Transformer you can train, run fast, and see through.

Public names are imported at first use, so that the command line starts without loading torch.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.extras import TRAINING, explained

if TYPE_CHECKING:
    from glassformer.conversion import convert, export
    from glassformer.decoding import Beam, Sample
    from glassformer.engine import EngineOptions
    from glassformer.errors import GlassformerError
    from glassformer.inspection import (
        AverageHead,
        ForcePrefix,
        RemoveEdge,
        RemoveHead,
        ReplaceMatrices,
        ReplaceToken,
        SkipFeedForward,
        Trace,
        UniformAttention,
        inspect,
        record,
    )
    from glassformer.inspection.figures import figure
    from glassformer.loading import load
    from glassformer.model import ModelConfig, Transformer, load_model, preset, save_model, taps
    from glassformer.model_evaluation import evaluate, score
    from glassformer.notebook import explore
    from glassformer.server.serving import serve
    from glassformer.training import ProgressListener, train
    from glassformer.translation import Constraints
    from glassformer.translator import Translator

__version__ = "0.1.0"

# Public names, roughly in the order of use, and the modules they are imported from.
_MODULES = {
    "load": "loading",
    "Translator": "translator",
    "Constraints": "translation",
    "Beam": "decoding",
    "Sample": "decoding",
    "EngineOptions": "engine",
    "train": "training",
    "ProgressListener": "training",
    "evaluate": "model_evaluation",
    "score": "model_evaluation",
    "convert": "conversion",
    "export": "conversion",
    "serve": "server.serving",
    "inspect": "inspection",
    "Trace": "inspection",
    "RemoveHead": "inspection",
    "AverageHead": "inspection",
    "UniformAttention": "inspection",
    "RemoveEdge": "inspection",
    "SkipFeedForward": "inspection",
    "ReplaceToken": "inspection",
    "ReplaceMatrices": "inspection",
    "ForcePrefix": "inspection",
    "explore": "notebook",
    "figure": "inspection.figures",
    "Transformer": "model",
    "ModelConfig": "model",
    "preset": "model",
    "save_model": "model",
    "load_model": "model",
    "taps": "model",
    "record": "inspection",
    "GlassformerError": "errors",
}

__all__ = [
    "AverageHead",
    "Beam",
    "Constraints",
    "EngineOptions",
    "ForcePrefix",
    "GlassformerError",
    "ModelConfig",
    "ProgressListener",
    "RemoveEdge",
    "RemoveHead",
    "ReplaceMatrices",
    "ReplaceToken",
    "Sample",
    "SkipFeedForward",
    "Trace",
    "Transformer",
    "Translator",
    "UniformAttention",
    "convert",
    "evaluate",
    "explore",
    "export",
    "figure",
    "inspect",
    "load",
    "load_model",
    "preset",
    "record",
    "save_model",
    "score",
    "serve",
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
