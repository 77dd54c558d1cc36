"""Sampling for one sentence: as many targets as are wanted, each with a stream of chance of its own."""

import hashlib
import random
from collections.abc import Sequence

from glassformer.decoding.beam import Candidate
from glassformer.decoding.hypothesis import Hypothesis, Node, ended, start
from glassformer.decoding.rules import Rules
from glassformer.decoding.search_settings import Sample


class Sampling:
    """One sentence's samples under way."""

    def __init__(self, rules: Rules, sample: Sample, bos: int, source: Sequence[int]) -> None:
        self.rules = rules
        self.sample = sample
        self.growing: list[Node] = [start(bos)]
        self._chances = {i: chance(sample.seed, source, i) for i in range(sample.n_best)}
        self._drawn: dict[int, Hypothesis] = {}
        self._who: list[list[int]] = [list(self._chances)]  # the samples in each row: all begin in the first

    @property
    def best(self) -> list[Hypothesis]:
        """The samples that have ended, in the order of their streams."""
        return [self._drawn[i] for i in sorted(self._drawn)]

    def chances(self) -> list[list[float]]:
        """For each row, a number from 0 to 1 for each token to be drawn from it."""
        return [[self._chances[i].random() for i in samples] for samples in self._who]

    def advance(self, drawn: Sequence[Sequence[Candidate]]) -> list[int]:
        """Take one step with the tokens drawn for each row; returns the rows that the growing ones come from."""
        rows, growing, who = [], [], []
        for row, (node, samples, own) in enumerate(zip(self.growing, self._who, drawn, strict=True)):
            for i, (token, log_p) in zip(samples, own, strict=True):
                child = node.then(token, log_p, likeliest=False)
                if token == self.rules.eos:
                    self._drawn[i] = ended(child, self.sample.length_penalty)
                else:
                    rows.append(row)
                    growing.append(child)
                    who.append([i])
        self.growing, self._who = growing, who
        return rows


def chance(seed: int, source: Sequence[int], sample: int) -> random.Random:
    """A stream that depends on these alone, on every machine alike."""
    digest = hashlib.blake2b(repr((seed, list(source), sample)).encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))
