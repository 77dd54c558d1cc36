"""Sampling for one sentence: several targets, each with its own random stream."""

import hashlib
import random
from collections.abc import Sequence

from glassformer.decoding.beam import Candidate
from glassformer.decoding.hypothesis import Hypothesis, Node, start_node, to_hypothesis
from glassformer.decoding.rules import Rules
from glassformer.decoding.search_settings import Sample


class Sampling:
    """Sampling of one sentence's targets, in progress."""

    def __init__(self, rules: Rules, sample: Sample, bos: int, source: Sequence[int]) -> None:
        self.rules = rules
        self.sample = sample
        self.growing: list[Node] = [start_node(bos)]
        self._streams = {i: random_stream(sample.seed, source, i) for i in range(sample.n_best)}
        self._finished: dict[int, Hypothesis] = {}
        self._samples: list[list[int]] = [list(self._streams)]  # the samples in each row: all begin in the first

    @property
    def best(self) -> list[Hypothesis]:
        """The finished samples, in the order of their streams."""
        return [self._finished[i] for i in sorted(self._finished)]

    def uniforms(self) -> list[list[float]]:
        """For each unfinished sample, one uniform random number in [0, 1) per token to draw from it."""
        return [[self._streams[i].random() for i in samples] for samples in self._samples]

    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[int]:
        """Take one step with the tokens sampled for each row; returns the parent row of each unfinished sample."""
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
        return rows


def random_stream(seed: int, source: Sequence[int], sample: int) -> random.Random:
    """A random stream that depends on these arguments only and is the same on every machine."""
    digest = hashlib.blake2b(repr((seed, list(source), sample)).encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))
