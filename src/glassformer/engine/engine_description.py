"""Description of the engine in use, as told by `/api/model`, `/metrics`, `bench` and `--json`."""

from dataclasses import dataclass

from glassformer.decoding import Ensemble, SearchBackend
from glassformer.decoding.vocabulary_shortlist import MaskedStepModel
from glassformer.engine.engine_options import EngineKind, Precision
from glassformer.engine.factory import Engine
from glassformer.engine.native_library import loaded
from glassformer.engine.native_model import NativeStepModel


@dataclass(frozen=True)
class EngineDescription:
    """The engine that answers. Equal descriptions with a digest give bitwise equal results."""

    engine: EngineKind
    """What runs the model: not what was asked for where that is not available."""
    precision: Precision
    instruction_set: str | None = None
    """Instruction set of the C library; `native` if it was compiled for this processor."""
    digest: str | None = None
    """Digest of the C library."""
    device: str = "cpu"
    """The device that computes, as PyTorch names it."""

    def __str__(self) -> str:
        library = "" if self.instruction_set is None else f", library {self.instruction_set}"
        return f"engine {self.engine} on {self.device} in {self.precision}{library}"


def describe_engine(engine: Engine) -> EngineDescription:
    """The description of an engine; of an ensemble, that of its first model."""
    if not isinstance(engine, SearchBackend):
        return EngineDescription("ctranslate2", getattr(engine, "precision", "float32"))
    step_model = engine.step_model
    if isinstance(step_model, Ensemble):
        step_model = step_model.step_models[0]
    if isinstance(step_model, NativeStepModel):
        native = loaded()
        of_library = () if native is None else (native.instruction_set, native.digest)
        return EngineDescription("fast", step_model.weights.precision, *of_library)
    from glassformer.engine.reduced_precision import precision_of  # PyTorch runs the model, so it is imported already
    from glassformer.engine.torch_step_model import PlainStepModel

    if isinstance(step_model, MaskedStepModel):
        step_model = step_model.step_model
    if not isinstance(step_model, PlainStepModel):
        return EngineDescription("plain", "float32")
    return EngineDescription("plain", precision_of(step_model.model), device=str(step_model.device))
