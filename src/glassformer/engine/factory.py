"""From a model and what is asked to whoever does the work."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from glassformer import decoding
from glassformer.decoding import Ensemble, Hypothesis, Load, Plain, Predictor, Request, Search
from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.native_library import library
from glassformer.engine.native_model import ENOUGH, Fast
from glassformer.engine.reduced_precision import rounded
from glassformer.errors import InputError
from glassformer.hardware import cores
from glassformer.model import Transformer


class Engine(Protocol):
    """Whoever finds targets."""

    longest: int | None
    """Tokens that a source may have; None for any number."""

    def search(self, requests: Sequence[Request], how: Search) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first."""


class Searching:
    """Our own search, asking a predictor."""

    def __init__(self, predictor: Predictor, load: Load | None = None) -> None:
        self.predictor = predictor
        self.load = load or Load()
        self.longest = predictor.longest

    def search(self, requests: Sequence[Request], how: Search) -> list[list[Hypothesis]]:
        return decoding.search(self.predictor, requests, how, self.load)


def open_engine(models: Sequence[Transformer], options: EngineOptions, directory: Path | None = None) -> Engine:
    """An engine for a model, or for several that answer together. `directory`: where the model stands, if it does."""
    if options.engine == "ctranslate2":
        from glassformer.engine.ctranslate2_engine import CTranslate2

        if len(models) > 1:
            raise InputError("CTranslate2 here runs one model at a time: use `fast` for several together.")
        return CTranslate2(models[0], directory, options)
    return open_search(models, options)


def open_search(models: Sequence[Transformer], options: EngineOptions) -> Searching:
    """Our own search of them, with as many workers as help."""
    predictors = [open_predictor(model, options) for model in models]
    compiled = all(isinstance(predictor, Fast) for predictor in predictors)
    load = Load(
        positions=options.positions,
        sentences=1 if options.exact and not compiled else options.sentences,
        rows=ENOUGH if compiled else None,
        workers=(options.workers or cores()) if compiled else 1,  # torch has threads of its own
    )
    return Searching(predictors[0] if len(predictors) == 1 else Ensemble(predictors), load)


def open_predictor(model: Transformer, options: EngineOptions) -> Predictor:
    """Compiled where there is a compiler, unless the plain model is asked for."""
    compiled = library() if options.engine == "fast" else None
    if compiled is None:
        return Plain(rounded(model, options.precision))
    return Fast(model, compiled, options.precision)
