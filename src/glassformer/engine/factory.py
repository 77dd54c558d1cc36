"""From a model and what is asked to whoever does the work."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from glassformer import decoding
from glassformer.decoding import BatchLimits, Ensemble, Hypothesis, PlainStepModel, Request, SearchSettings, StepModel
from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.native_library import library
from glassformer.engine.native_model import ENOUGH, NativeStepModel
from glassformer.engine.reduced_precision import rounded
from glassformer.errors import InputError
from glassformer.hardware import cores
from glassformer.model import Transformer


class Engine(Protocol):
    """Whoever finds targets."""

    max_tokens: int | None
    """Tokens that a source may have; None for any number."""

    def search(self, requests: Sequence[Request], settings: SearchSettings) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first."""


class SearchBackend:
    """Our own search, asking a step_model."""

    def __init__(self, step_model: StepModel, limits: BatchLimits | None = None) -> None:
        self.step_model = step_model
        self.limits = limits or BatchLimits()
        self.max_tokens = step_model.max_tokens

    def search(self, requests: Sequence[Request], settings: SearchSettings) -> list[list[Hypothesis]]:
        return decoding.search(self.step_model, requests, settings, self.limits)


def open_engine(models: Sequence[Transformer], options: EngineOptions, directory: Path | None = None) -> Engine:
    """An engine for a model, or for several that answer together. `directory`: where the model stands, if it does."""
    if options.engine == "ctranslate2":
        from glassformer.engine.ctranslate2_engine import CTranslate2

        if len(models) > 1:
            raise InputError("CTranslate2 here runs one model at a time: use `fast` for several together.")
        return CTranslate2(models[0], directory, options)
    return open_search_backend(models, options)


def open_search_backend(models: Sequence[Transformer], options: EngineOptions) -> SearchBackend:
    """Our own search of them, with as many workers as help."""
    step_models = [open_step_model(model, options) for model in models]
    compiled = all(isinstance(step_model, NativeStepModel) for step_model in step_models)
    limits = BatchLimits(
        positions=options.positions,
        sentences=1 if options.exact and not compiled else options.sentences,
        rows=ENOUGH if compiled else None,
        workers=(options.workers or cores()) if compiled else 1,  # torch has threads of its own
    )
    return SearchBackend(step_models[0] if len(step_models) == 1 else Ensemble(step_models), limits)


def open_step_model(model: Transformer, options: EngineOptions) -> StepModel:
    """Compiled where there is a compiler, unless the plain model is asked for."""
    compiled = library() if options.engine == "fast" else None
    if compiled is None:
        return PlainStepModel(rounded(model, options.precision))
    return NativeStepModel(model, compiled, options.precision)
