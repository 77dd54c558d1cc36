"""Builds an inference engine from models and `EngineOptions`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from glassformer.decoding import (
    BatchLimits,
    Ensemble,
    Hypothesis,
    PlainStepModel,
    Request,
    SearchBackend,
    SearchSettings,
    SearchTask,
    StepModel,
)
from glassformer.decoding.continuous_batching import RunningBatch, Task
from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.native_library import library
from glassformer.engine.native_model import SATURATING_ROWS, NativeStepModel
from glassformer.engine.reduced_precision import to_precision
from glassformer.errors import InputError
from glassformer.hardware import cores
from glassformer.model import Transformer


class Engine(Protocol):
    """An inference engine: searches for the targets of sources, as token ids.

    The server uses its `tasks` and `open` instead of `search`, to batch the sentences of many clients.
    """

    max_tokens: int | None
    """Maximum number of tokens in a source; None for no limit."""
    workers: int
    """Number of threads that can run batches at the same time."""

    def search(self, requests: Sequence[Request], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Search for the translations of all requests; returns the hypotheses of each, best first."""

    def tasks(self, requests: Sequence[Request], settings: SearchSettings, numbers: Iterable[int]) -> list[SearchTask]:
        """Make search tasks of requests; raises an `InputError` if a request or the settings do not suit the model."""

    def open(self, settings: SearchSettings, reads_tokens: bool) -> RunningBatch[Task]:
        """Open an empty batch for tasks with these settings. `reads_tokens`: whether their rules read tokens."""


def open_engine(models: Sequence[Transformer], options: EngineOptions, directory: Path | None = None) -> Engine:
    """Open an engine for one model, or for an ensemble. `directory`: where the model is stored, if anywhere."""
    if options.engine == "ctranslate2":
        from glassformer.engine.ctranslate2_engine import CTranslate2

        if len(models) > 1:
            raise InputError("The CTranslate2 engine runs one model at a time: use the engine `fast` for an ensemble.")
        return CTranslate2(models[0], directory, options)
    return open_search_backend(models, options)


def open_search_backend(models: Sequence[Transformer], options: EngineOptions) -> SearchBackend:
    """Open a `SearchBackend` on one model or an ensemble, with as many search threads as are useful."""
    step_models = [open_step_model(model, options) for model in models]
    compiled = all(isinstance(step_model, NativeStepModel) for step_model in step_models)
    limits = BatchLimits(
        positions=options.positions,
        sentences=1 if options.exact and not compiled else options.sentences,
        rows=SATURATING_ROWS if compiled else None,
        workers=(options.workers or cores()) if compiled else 1,  # torch has its own threads
    )
    return SearchBackend(step_models[0] if len(step_models) == 1 else Ensemble(step_models), limits)


def open_step_model(model: Transformer, options: EngineOptions) -> StepModel:
    """A model as a step model: in compiled C if there is a compiler and `plain` is not requested, else in PyTorch."""
    compiled = library() if options.engine == "fast" else None
    if compiled is None:
        return PlainStepModel(to_precision(model, options.precision))
    return NativeStepModel(model, compiled, options.precision)
