"""An imported model: network, tokenizer and notes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glassformer.data import ImportedTokenizer
from glassformer.decoding.vocabulary_shortlist import Shortlist
from glassformer.model import HasWeights, ModelWeights

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ImportedModel(HasWeights):
    """A model of another program, converted to ours."""

    family: str
    """The format it was read from, for messages: "Hugging Face Marian"."""
    weights: ModelWeights
    tokenizer: ImportedTokenizer | None
    """The model's tokenizer; None if the model takes ids only."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about the import, one sentence each."""
    read_shortlist: Callable[[], Shortlist] | None = None
    """Reads the model's shortlist, which takes a moment; None if it has none."""
