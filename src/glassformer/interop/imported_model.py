"""An imported model: network, tokenizer and notes."""

from dataclasses import dataclass, field

from glassformer.data import ImportedTokenizer
from glassformer.model import Transformer


@dataclass(frozen=True)
class ImportedModel:
    """A model of another program, converted to ours."""

    family: str
    """The format it was read from, for messages: "Hugging Face Marian"."""
    model: Transformer
    tokenizer: ImportedTokenizer | None
    """The model's tokenizer; None if the model takes ids only."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about the import, one sentence each."""
