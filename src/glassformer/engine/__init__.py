"""Who does the work of a search: compiled C, the plain model, or CTranslate2. Knows ids, never text."""

from glassformer.engine.opened import Engine, Searching, open_engine, open_predictor, open_search
from glassformer.engine.options import EngineOptions

__all__ = ["Engine", "EngineOptions", "Searching", "open_engine", "open_predictor", "open_search"]
