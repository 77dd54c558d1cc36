"""Builds an inference engine from models and `EngineOptions`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from glassformer.decoding import (
    Attention,
    BatchLimits,
    Ensemble,
    Head,
    Hypothesis,
    Request,
    SearchBackend,
    SearchSettings,
    SearchTask,
    Shortlist,
    StepModel,
)
from glassformer.decoding.continuous_batching import RunningBatch, Task
from glassformer.decoding.vocabulary_shortlist import MaskedStepModel
from glassformer.engine.devices import chosen_device
from glassformer.engine.engine_options import PRECISIONS, EngineOptions, Precision
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.native_structs import SATURATING_ROWS
from glassformer.errors import InputError
from glassformer.extras import explained
from glassformer.hardware import cores
from glassformer.model import ModelWeights

if TYPE_CHECKING:
    from glassformer.model import Transformer

NO_BFLOAT16 = (
    "The precision bfloat16 needs a processor with AVX-512 BF16 and the library `avx512-bf16` of the fast engine: use "
    "float32, float16 or int8."
)


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

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float = 1.0
    ) -> list[Hypothesis]:
        """Score targets as hypotheses for their sources."""

    def attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], heads: Sequence[Head]
    ) -> list[Attention]:
        """The weights of these cross-attention heads for given targets."""

    def tasks(self, requests: Sequence[Request], settings: SearchSettings, numbers: Iterable[int]) -> list[SearchTask]:
        """Make search tasks of requests; raises an `InputError` if a request or the settings do not suit the model."""

    def open(self, settings: SearchSettings, reads_tokens: bool) -> RunningBatch[Task]:
        """Open an empty batch for tasks with these settings. `reads_tokens`: whether their rules read tokens."""


def open_engine(
    models: "Sequence[Transformer | ModelWeights]",
    options: EngineOptions,
    directory: Path | None = None,
    shortlist: Shortlist | None = None,
) -> Engine:
    """Open an engine for one model, or for an ensemble. `directory`: where the model is stored, if anywhere.

    `shortlist`: the model's, which is used as the options say.
    """
    options = on_chosen_device(options)
    used = chosen_shortlist(options, shortlist, len(models))
    if options.engine == "ctranslate2":
        from glassformer.engine.ctranslate2_engine import CTranslate2

        if len(models) > 1:
            raise InputError("The CTranslate2 engine runs one model at a time: use the engine `fast` for an ensemble.")
        return CTranslate2(ModelWeights.of(models[0]).network, directory, options)
    return open_search_backend(models, options, used)


def on_chosen_device(options: EngineOptions) -> EngineOptions:
    """The options with the device that answers; one that is not there, or cannot run them, is an error.

    `auto` is the CPU for options that only its engines have.
    """
    if options.device == "cpu":
        return options
    refusal = None
    if options.engine == "ctranslate2":
        refusal = "The CTranslate2 engine runs on the CPU: use the engine `fast` on a GPU"
    elif options.precision == "int8":
        refusal = "The precision int8 is the CPU's: use float32, float16 or bfloat16 on a GPU"
    if refusal and options.device != "auto":
        raise InputError(f"{refusal}, or the device cpu.")
    return options.model_copy(update={"device": "cpu" if refusal else chosen_device(options.device)})


def chosen_shortlist(options: EngineOptions, shortlist: Shortlist | None, models: int = 1) -> Shortlist | None:
    """The shortlist that is used with these options, if any; one that is requested but impossible is an error."""
    if options.shortlist is None:
        measurement = None if shortlist is None else shortlist.measurement
        is_cheap = measurement is not None and measurement.is_cheap
        return shortlist if is_cheap and models == 1 and options.engine != "ctranslate2" else None
    if not options.shortlist:
        return None
    if models > 1 or options.engine == "ctranslate2":
        user = "An ensemble" if models > 1 else "The CTranslate2 engine"
        raise InputError(f"{user} cannot use a shortlist: leave out --shortlist.")
    if shortlist is None:
        raise InputError("The model has no shortlist: make one with `glassformer shortlist`, or leave out --shortlist.")
    return shortlist


def open_search_backend(
    models: "Sequence[Transformer | ModelWeights]", options: EngineOptions, shortlist: Shortlist | None = None
) -> SearchBackend:
    """Open a `SearchBackend` on one model or an ensemble, with as many search threads as are useful.

    `shortlist`: used for all sentences, for one model only.
    """
    step_models = [open_step_model(model, options, shortlist) for model in models]
    compiled = all(isinstance(step_model, NativeStepModel) for step_model in step_models)
    limits = BatchLimits(
        positions=options.positions,
        sentences=1 if options.exact and not compiled else options.sentences,
        rows=SATURATING_ROWS if compiled else None,
        workers=(options.workers or cores()) if compiled else 1,  # torch has its own threads
    )
    return SearchBackend(step_models[0] if len(step_models) == 1 else Ensemble(step_models), limits)


def fast_precisions() -> list[Precision]:
    """The precisions of the engine `fast` on this processor: bfloat16 only where it multiplies in it."""
    compiled = library()
    supported = compiled is None or compiled.multiplies_bfloat16()
    return [precision for precision in PRECISIONS if supported or precision != "bfloat16"]


def open_step_model(
    model: "Transformer | ModelWeights", options: EngineOptions, shortlist: Shortlist | None = None
) -> StepModel:
    """A model as a step model: in C on a CPU, if there is a library and `plain` is not requested; else in PyTorch."""
    options = on_chosen_device(options)
    is_compiled = options.engine == "fast" and options.device == "cpu"
    compiled = library() if is_compiled else None
    if is_compiled and options.precision not in fast_precisions():
        raise InputError(NO_BFLOAT16)
    if compiled is not None:
        return NativeStepModel(model, compiled, options.precision, shortlist)
    with explained():
        from glassformer.engine.reduced_precision import to_precision
        from glassformer.engine.torch_step_model import PlainStepModel
    weights = ModelWeights.of(model)
    if options.device == "cpu":  # or where the model is
        network = to_precision(weights.network, options.precision)
    else:
        network = weights.on(options.device, options.precision).network
    plain = PlainStepModel(network)
    return plain if shortlist is None else MaskedStepModel(plain, shortlist)
