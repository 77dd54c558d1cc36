"""What comes in through a door."""

from dataclasses import dataclass, field

from glassformer.data import ForeignTokenizer
from glassformer.model import Transformer


@dataclass(frozen=True)
class ImportedModel:
    """A model from elsewhere, as one of ours."""

    family: str
    """Where it comes from, as one would say it: "Hugging Face Marian"."""
    model: Transformer
    tokenizer: ForeignTokenizer | None
    """None: it takes ids."""
    notes: list[str] = field(default_factory=list)
    """What its user should know: one sentence each."""
