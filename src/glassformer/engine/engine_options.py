"""Engine options: which engine, device, precision, threads and batch limits."""

from typing import Annotated, Literal

from pydantic import Field

from glassformer.decoding.batch_limits import DEFAULT_MAX_POSITIONS
from glassformer.engine.devices import DeviceName
from glassformer.settings import Settings

Precision = Literal["float32", "float16", "bfloat16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "bfloat16", "int8")
EngineKind = Literal["fast", "plain", "ctranslate2"]
Count = Annotated[int, Field(ge=1)]


class EngineOptions(Settings):
    """Options of the inference engine. In the same precision all engines give the same results, up to rounding.

    >>> gf.load("street", engine=gf.EngineOptions(precision="int8", workers=1))
    <Translator street, engine fast, int8>
    """

    engine: EngineKind = "fast"
    """Inference engine: "fast" (compiled C on all cores), "plain" (PyTorch) or "ctranslate2".

    "fast" has a library per instruction set; "plain" is the readable PyTorch model; "ctranslate2" is the CTranslate2
    library, from the extra `ct2`."""
    device: DeviceName = "cpu"
    """Device: "cpu", "cuda" (or "cuda:1" and so on), "mps", or "auto" for a CUDA GPU if there is one, else the CPU.

    On a GPU PyTorch runs the model in one thread, and equal precisions differ from the CPU's by rounding."""
    precision: Precision = "float32"
    """Precision of the weights.

    "float16" halves the memory and is nearly exact; "bfloat16", for processors that multiply in it, rounds weights and
    inputs of matrix products to 8 significant bits; "int8" is smallest and fastest, and changes some translations. On a
    GPU the whole model is computed in it, and there is no "int8"."""
    workers: Count | None = None
    """Number of search threads of the engine "fast", each with its own sentences; one per core by default."""
    sentences: Count | None = None
    """Maximum number of sentences in a worker's batch; as many as fit into `positions` by default."""
    positions: Count = DEFAULT_MAX_POSITIONS
    """Maximum of source and target positions, over all hypotheses, in a worker's KV cache."""
    exact: bool = False
    """Whether results must be bitwise independent of batch composition.

    The compiled engine always guarantees this, at no cost; others then process one sentence at a time."""
    shortlist: bool | None = None
    """Whether each translation uses only the tokens of a vocabulary shortlist, which makes the output product smaller.

    By default, where the model has a shortlist whose measured cost is at most 0.3 BLEU."""
