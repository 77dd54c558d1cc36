"""Beam search for one sentence; greedy search is its narrowest. Sees candidates, never a model or a neighbour."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.decoding.hypothesis import Hypothesis, Node, ended, penalised, start
from glassformer.decoding.rules import Rules
from glassformer.decoding.search_settings import Beam

Candidate = tuple[int, float]
"""A token that may come next, and its log-probability."""
Child = tuple[float, int, int, int, float]
"""A way to go on: its loss so far, the row that it comes from, its rank there, its token, the token's log-probability.

In their own order the best comes first, and of equals the one of the better parent."""


@dataclass(frozen=True)
class BeamStep:
    """What a search saw and decided in one step."""

    growing: list[Node]
    """What there was to go on with."""
    ranked: list[Child]
    """Every way to go on, best first."""
    kept: list[tuple[int, Node]]
    """What it went on with, and the row of `growing` that each comes from."""
    ended: list[Node]


class BeamSearch:
    """One sentence's search under way."""

    def __init__(self, rules: Rules, beam: Beam, bos: int, log: list[BeamStep] | None = None) -> None:
        self.rules = rules
        self.beam = beam
        self.log = log
        """Where every step is written down, for whoever wants to look back."""
        self.growing: list[Node] = [start(bos)]
        self.best: list[Hypothesis] = []
        """The wanted hypotheses so far, best first; of equals, the one found first."""

    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[int]:
        """Take one step with the candidates of each growing hypothesis, likeliest first.

        Returns which of them the new growing ones come from, in order; none when the search is over.
        """
        k = self.beam.width
        kept: list[tuple[int, Node]] = []
        ended: list[Node] = []
        ranked = self._ranked(candidates)
        for place, (_, row, rank, token, log_p) in enumerate(ranked):
            parent = self.growing[row]
            spared = self.beam.keep_greedy and parent.greedy and rank == 0
            if token == self.rules.eos:
                if place < k or spared:
                    ended.append(parent.then(token, log_p, rank == 0))
            elif len(kept) < k:
                kept.append((row, parent.then(token, log_p, rank == 0)))
            elif spared:
                kept[-1] = (row, parent.then(token, log_p, likeliest=True))
        for node in ended:
            self._end(node)
        if self.log is not None:
            self.log.append(BeamStep(self.growing, ranked, kept, ended))
        self.growing = [node for _, node in kept]
        if not self._may_improve():
            self.growing = []
        return [row for row, _ in kept] if self.growing else []

    def _ranked(self, candidates: Sequence[Sequence[Candidate]]) -> list[Child]:
        """Every way to go on, best first."""
        diversity = self.beam.diversity
        children = [
            (diversity * rank - node.total - log_p, row, rank, token, log_p)
            for row, (node, own) in enumerate(zip(self.growing, candidates, strict=True))
            for rank, (token, log_p) in enumerate(own)
        ]
        children.sort()
        return self._spread(children) if self.rules.phrases else children

    def _spread(self, ranked: list[Child]) -> list[Child]:
        """In turn the best of those that have as much of the phrases, the most first.

        Otherwise a phrase would be put off until nothing else fits (dynamic beam allocation, arXiv:1804.06609).
        """
        banks: dict[int, list[Child]] = {}
        for child in ranked:
            _, row, _, token, _ = child
            banks.setdefault(self.rules.progress([*self.growing[row].tokens, token]), []).append(child)
        in_turn = itertools.zip_longest(*(banks[progress] for progress in sorted(banks, reverse=True)))
        return [child for turn in in_turn for child in turn if child is not None]

    def _end(self, node: Node) -> None:
        self.best.append(ended(node, self.beam.length_penalty))
        self.best.sort(key=lambda hypothesis: -hypothesis.score)
        del self.best[self.beam.n_best :]

    def _may_improve(self) -> bool:
        """Whether anything that grows could still come among the wanted.

        A log-probability only falls, and is at best divided by the longest length allowed; so nothing is missed.
        """
        if not self.growing or len(self.best) < self.beam.n_best:
            return bool(self.growing)
        if self.beam.width == 1:
            return False
        hopes = penalised(max(node.total for node in self.growing), self.rules.limit, self.beam.length_penalty)
        return hopes > self.best[-1].score
