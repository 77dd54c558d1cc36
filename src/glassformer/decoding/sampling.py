"""Sampling: its settings, and the search of one sentence: several targets, each with its own random stream."""

import hashlib
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from glassformer.decoding.hypothesis import Candidate, Hypothesis, to_hypothesis
from glassformer.decoding.rules import Rules
from glassformer.decoding.search_settings import SearchSettings, SentenceSearch

if TYPE_CHECKING:  # it has arrays; this module has none
    from glassformer.decoding.next_tokens import TokenChoice


class Sample(SearchSettings):
    """Sampling: draw each token by its probability, `n_best` times for each sentence.

    Samples depend on the seed and the sentence itself, not on the batch or the sentence's position in it.

    >>> translator = gf.load("street", search=gf.Sample(top_p=0.9, seed=1))
    >>> translator("The animal slept.") == translator("The animal slept.")
    True
    """

    temperature: Annotated[float, Field(ge=1e-4, le=1e4)] = 1.0
    """Logits are divided by it: below 1 the distribution is sharper, above 1 flatter."""
    top_k: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Sample from the k most likely tokens; 0 for all tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample from the most likely tokens that together have this probability."""
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Sample from tokens of at least this probability (arXiv:2210.15191)."""
    seed: int = 0
    """Random seed; the same seed gives the same samples."""

    @property
    def candidates_per_row(self) -> int:
        return 0  # sampled from the logits, not taken from the most likely

    def begin(self, rules: Rules, bos: int, source: Sequence[int]) -> "Sampling":
        return Sampling(rules, self, bos, source)

    def candidates(self, choice: "TokenChoice", searches: Sequence[SentenceSearch]) -> list[list[Candidate]]:
        """The tokens sampled in one step."""
        return choice.sampled([numbers for search in searches for numbers in search.uniforms()], self)


class Sampling(SentenceSearch):
    """Sampling of one sentence's targets, in progress. `best` has the samples in the order of their streams."""

    def __init__(self, rules: Rules, sample: Sample, bos: int, source: Sequence[int]) -> None:
        super().__init__(rules, bos)
        self.sample = sample
        self._streams = {i: random_stream(sample.seed, source, i) for i in range(sample.n_best)}
        self._finished: dict[int, Hypothesis] = {}
        self._samples: list[list[int]] = [list(self._streams)]  # the samples in each row: all begin in the first

    def uniforms(self) -> list[list[float]]:
        return [[self._streams[i].random() for i in samples] for samples in self._samples]

    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[int]:
        rows, growing, remaining = [], [], []
        for row, (node, samples, row_candidates) in enumerate(
            zip(self.growing, self._samples, candidates, strict=True)
        ):
            for i, (token, log_p) in zip(samples, row_candidates, strict=True):
                child = node.then(token, log_p, likeliest=False)
                if token == self.rules.eos:
                    self._finished[i] = to_hypothesis(child, self.sample.length_penalty)
                else:
                    rows.append(row)
                    growing.append(child)
                    remaining.append([i])
        self.growing, self._samples = growing, remaining
        self.best = [self._finished[i] for i in sorted(self._finished)]
        return rows


def random_stream(seed: int, source: Sequence[int], sample: int) -> random.Random:
    """A random stream that depends on these arguments only and is the same on every machine."""
    digest = hashlib.blake2b(repr((seed, list(source), sample)).encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))
