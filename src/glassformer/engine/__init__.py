"""Who does the work of a search: compiled C, the plain model, or CTranslate2. Knows ids, never text."""

from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.factory import Engine, Searching, open_engine, open_predictor, open_search

__all__ = ["Engine", "EngineOptions", "Searching", "open_engine", "open_predictor", "open_search"]
