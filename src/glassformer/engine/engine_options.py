"""What may be asked of whoever does the work."""

from typing import Annotated, Literal

from pydantic import Field

from glassformer.decoding.continuous_batching import POSITIONS
from glassformer.settings import Settings

Precision = Literal["float32", "float16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "int8")
Kind = Literal["fast", "plain", "ctranslate2"]
Count = Annotated[int, Field(ge=1)]


class EngineOptions(Settings):
    """Which engine, and how it works. In one precision all find the same, as far as rounding allows."""

    engine: Kind = "fast"
    """"fast": compiled for this processor, all cores; "plain": the model as it is written to be read; "ctranslate2":
    that library, from the extra `ct2`."""
    precision: Precision = "float32"
    """What weights are kept in. "float16" halves the memory and is nearly exact; "int8" is smallest and fastest, and
    changes some answers."""
    workers: Count | None = None
    """Threads that search, each its own sentences; as many as there are cores unless given."""
    sentences: Count | None = None
    """Sentences that a worker has under way, at most; as many as fit into `positions` unless given."""
    positions: Count = POSITIONS
    """Source and target positions of all hypotheses that a worker remembers, at most."""
    exact: bool = False
    """Whether the last bit must not depend on neighbours. The compiled engine always keeps to that, for nothing; others
    then take one sentence at a time."""
