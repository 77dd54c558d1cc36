"""How to search: what every search may be told, and what each kind adds."""

from typing import Annotated

from pydantic import Field

from glassformer.settings import Settings

Token = Annotated[int, Field(ge=0)]
Width = Annotated[int, Field(ge=1, le=1000)]


class SearchSettings(Settings):
    """What every kind of search may be told."""

    max_length_ratio: Annotated[float, Field(ge=0)] = 2.0
    """A target has at most this many times its own source's tokens, and `max_length_extra` more."""
    max_length_extra: Annotated[int, Field(ge=1)] = 10
    """Tokens beyond `max_length_ratio` times the source's."""
    min_length_ratio: Annotated[float, Field(ge=0)] = 0.0
    """A target has at least this many times its own source's tokens before it ends."""
    no_repeat: Annotated[int, Field(ge=0)] = 0
    """No run of so many tokens may occur twice in a target; 0 allows it."""
    suppress: Annotated[tuple[Token, ...], Field(strict=False)] = ()  # from a file it comes as a list
    """Tokens that may never be written, unless they are forced."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 1.0  # length ** 100 is no number any more
    """Hypotheses compete by log-probability / length ** length_penalty; 0 favours short ones."""
    n_best: Width = 1
    """Hypotheses wanted of each sentence."""

    @property
    def width(self) -> int:
        """Rows that a sentence takes, at most."""
        return self.n_best


class Beam(SearchSettings):
    """Keep the best few beginnings of each sentence, and go on with all of them.

    The search ends when nothing that still grows could come among the `n_best`.
    """

    size: Width = 4
    """Hypotheses kept for each sentence; 1 is greedy search: the likeliest token at every step, and the first end."""
    diversity: Annotated[float, Field(ge=0)] = 0.0
    """How much a continuation loses for each likelier one of the same beginning, so that n-best lists differ early
    (the sibling penalty of arXiv:1611.08562). It chooses what is kept, and changes no score."""
    keep_greedy: bool = True
    """Whether the greedy target always keeps a place, so that no beam answers worse than greedy search does; a
    textbook's beam may drop it."""

    @classmethod
    def greedy(cls) -> "Beam":
        """The likeliest token at every step."""
        return cls(size=1, length_penalty=0.0)

    @property
    def width(self) -> int:
        return max(self.size, self.n_best)


class Sample(SearchSettings):
    """Draw each token by its probability, `n_best` times for each sentence.

    What is drawn depends on the seed and the sentence itself, not on its neighbours or its place among them.
    """

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Logits are divided by it: below 1 likely tokens become likelier, above 1 all become more alike."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Draw among the likeliest so many; 0 among all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw among the likeliest that together have this probability."""
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Draw among tokens of at least this probability (arXiv:2210.15191)."""
    seed: int = 0
    """The same seed draws the same."""
