"""What a translation is asked for (constraints, options of one call), and its result: candidates with probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.data.given_texts import listed_texts
from glassformer.decoding import Attention, SearchSettings
from glassformer.decoding.alignment_choice import AlignmentHeads
from glassformer.decoding.search_choice import SearchOptions


@dataclass(frozen=True)
class Constraints:
    """Hard constraints on the translation of a text.

    >>> translator, text = gf.load("street"), "The animal didn't cross the street because it was too tired."
    >>> forced = translator(text, gf.Constraints(prefix="Der", phrases=["nervös"]))
    >>> forced.startswith("Der") and "nervös" in forced
    True
    """

    prefix: str = ""
    """Text that the translation must begin with."""
    phrases: Sequence[str] = ()
    """Phrases that must occur in the translation."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "phrases", tuple(listed_texts(self.phrases, "phrases")))  # one text is one phrase


NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True)
class TranslationCandidate:
    """One candidate translation of a text, with its probabilities under the model."""

    text: str
    ids: list[int]
    """Token ids as generated, with the end-of-sentence token."""
    tokens: list[str]
    """The tokens as text, for display; ▁ stands for a space."""
    log_probabilities: list[float]
    """Log-probability of each token given the ones before it, in nats."""
    score: float
    """Score by which candidates are ranked: the sum of the log-probabilities after the length penalty."""
    attention: Attention | None = field(default=None, repr=False, compare=False)
    """Cross-attention weights of the requested heads, if the search recorded them."""


@dataclass(frozen=True)
class Translation:
    """The result of translating one text."""

    source: str
    candidates: list[TranslationCandidate]
    """The candidates, best first; empty for a blank text."""
    parts: int = 1
    """Number of parts that a text over the length limit was split into; 0 for a blank text."""
    source_ids: list[int] | None = None
    """Token ids of the source; None if it was blank or split."""

    @property
    def id_pair(self) -> tuple[list[int], list[int]] | None:
        """Source and target ids of the best candidate, for word alignment; None if the source was blank or split."""
        return None if self.source_ids is None else (self.source_ids, self.candidates[0].ids)

    @property
    def text(self) -> str:
        """The text of the best candidate; a blank text stays blank."""
        return self.candidates[0].text if self.candidates else ""


class TranslateOptions(SearchOptions, total=False):
    """Options of one call of `translate` or `translations`, besides those of the search."""

    search: SearchSettings | None
    """Another search than the translator's."""
    glossary: Mapping[str, str] | None
    """From a source term to the phrase that must occur in the translation of every text that contains the term."""
    mbr: bool
    """Whether the candidate that agrees most with all others is put first (minimum Bayes risk with chrF)."""
    choice: AlignmentHeads | None
    """Heads whose attention the search records, for `word_alignments`."""


ManyConstraints = Constraints | Sequence[Constraints] | None
"""Constraints for all texts, or one per text."""
