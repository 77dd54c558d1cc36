"""Base classes of a search: its settings, and the search of one sentence in progress.

A search is a subclass of each, in one module (`beam`, `sampling`). No other module asks which search it runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from glassformer.decoding.hypothesis import Candidate, Hypothesis, start_node
from glassformer.settings import Settings

if TYPE_CHECKING:  # these modules import this one
    from glassformer.decoding.beam import Beam
    from glassformer.decoding.next_tokens import TokenChoice
    from glassformer.decoding.rules import AllowedTokens, Rules

Token = Annotated[int, Field(ge=0)]
Width = Annotated[int, Field(ge=1, le=1000)]
Ratio = Annotated[float, Field(ge=0, le=1000)]
MAX_TARGET_TOKENS = 2**20
"""Upper limit of the maximum target length: tables and caches are made for it in advance."""


class SearchSettings(Settings, ABC):
    """Settings common to all kinds of search, and what a batch search must know of each."""

    max_length_ratio: Ratio = 2.0
    """A target has at most this many tokens per source token, plus `max_length_extra`."""
    max_length_extra: Annotated[int, Field(ge=1, le=MAX_TARGET_TOKENS)] = 10
    """Tokens allowed beyond `max_length_ratio` times the source length."""
    min_length_ratio: Ratio = 0.0
    """A target has at least this many tokens per source token before it ends."""
    no_repeat: Annotated[int, Field(ge=0, le=MAX_TARGET_TOKENS)] = 0
    """No n-gram of this size may occur twice in a target; 0 for no such constraint."""
    suppress: Annotated[tuple[Token, ...], Field(strict=False)] = ()  # a list in a settings file
    """Token ids that are never generated unless they are forced."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0  # length ** 100 would overflow
    """Hypotheses are ranked by log-probability / length ** length_penalty; 0 favours short ones."""
    n_best: Width = 1
    """Number of hypotheses returned for each sentence."""

    @property
    def width(self) -> int:
        """Maximum number of unfinished hypotheses per sentence."""
        return self.n_best

    @property
    def candidates_per_row(self) -> int:
        """Candidates needed per hypothesis: one more than the width, since one may be the end of sentence."""
        return 1 if self.width == 1 else self.width + 1

    @abstractmethod
    def begin(self, rules: "Rules", bos: int, source: Sequence[int]) -> "SentenceSearch":
        """Begin the search of one sentence."""

    def candidates(self, choice: "TokenChoice", searches: Sequence["SentenceSearch"]) -> list[list[Candidate]]:
        """The candidates of one step for each unfinished hypothesis of these searches: the most likely tokens."""
        return choice.most_likely(self.candidates_per_row)

    def as_beam(self) -> "Beam | None":
        """These settings as a beam search, for code that has no other search; None if they are something else."""
        return None


class SentenceSearch(ABC):
    """The search of one sentence, in progress: candidates in, decisions out. Does not see the model or the batch."""

    def __init__(self, rules: "Rules", bos: int) -> None:
        self.rules = rules
        self.growing = [start_node(bos)]
        """The unfinished hypotheses, all of the same length; empty when the search is over."""
        self.best: list[Hypothesis] = []
        """The finished hypotheses so far that are to be returned, best first."""

    @abstractmethod
    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[int]:
        """Take one step with the candidates of each unfinished hypothesis, most likely first.

        Returns for each new unfinished hypothesis the row of its parent; empty when the search is over.
        """

    def allowed_tokens(self) -> list["AllowedTokens"]:
        """The tokens that the rules allow next in each unfinished hypothesis."""
        if self.rules.reads_tokens:
            return [self.rules.allowed_tokens(node.length, node.tokens) for node in self.growing]
        return [self.rules.allowed_tokens(self.growing[0].length)] * len(self.growing)

    def uniforms(self) -> list[list[float]]:
        """For each unfinished hypothesis, one uniform random number in [0, 1) per token to sample; none by default."""
        return [[] for _ in self.growing]
