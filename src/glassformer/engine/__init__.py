"""Inference engines: compiled C, the PyTorch model, or CTranslate2. Token ids in and out, no text."""

from glassformer.engine.engine_description import EngineDescription, describe_engine
from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.factory import Engine, fast_precisions, open_engine, open_search_backend, open_step_model

__all__ = [
    "Engine",
    "EngineDescription",
    "EngineOptions",
    "describe_engine",
    "fast_precisions",
    "open_engine",
    "open_search_backend",
    "open_step_model",
]
