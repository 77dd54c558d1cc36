"""Search settings: those of every search, and those of beam search and sampling."""

from typing import Annotated

from pydantic import Field

from glassformer.settings import Settings

Token = Annotated[int, Field(ge=0)]
Width = Annotated[int, Field(ge=1, le=1000)]


class SearchSettings(Settings):
    """Settings common to all kinds of search."""

    max_length_ratio: Annotated[float, Field(ge=0)] = 2.0
    """A target has at most this many tokens per source token, plus `max_length_extra`."""
    max_length_extra: Annotated[int, Field(ge=1)] = 10
    """Tokens allowed beyond `max_length_ratio` times the source length."""
    min_length_ratio: Annotated[float, Field(ge=0)] = 0.0
    """A target has at least this many tokens per source token before it ends."""
    no_repeat: Annotated[int, Field(ge=0)] = 0
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


class Beam(SearchSettings):
    """Beam search: keep the best few partial targets of each sentence and extend all of them.

    The search ends when no unfinished hypothesis could still reach the `n_best`.
    """

    size: Width = 4
    """Beam size: number of hypotheses kept for each sentence.

    1 is greedy search: the most likely token at every step, up to the first end of sentence."""
    diversity: Annotated[float, Field(ge=0)] = 0.0
    """Diversity penalty: on a continuation, for each more likely continuation of the same hypothesis.

    N-best lists then differ early (the sibling penalty of arXiv:1611.08562). It affects which hypotheses are kept,
    but not their scores."""
    keep_greedy: bool = True
    """Whether the greedy hypothesis always keeps a place in the beam; a textbook beam may drop it.

    With it, no beam result is worse than greedy search."""

    @classmethod
    def greedy(cls) -> "Beam":
        """Greedy search: the most likely token at every step."""
        return cls(size=1, length_penalty=0.0)

    @property
    def width(self) -> int:
        return max(self.size, self.n_best)


class Sample(SearchSettings):
    """Sampling: draw each token by its probability, `n_best` times for each sentence.

    Samples depend on the seed and the sentence itself, not on the batch or the sentence's position in it.
    """

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Logits are divided by it: below 1 the distribution is sharper, above 1 flatter."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Sample from the k most likely tokens; 0 for all tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample from the most likely tokens that together have this probability."""
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Sample from tokens of at least this probability (arXiv:2210.15191)."""
    seed: int = 0
    """Random seed; the same seed gives the same samples."""
