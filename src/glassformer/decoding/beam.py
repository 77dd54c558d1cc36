"""Beam search for one sentence (greedy search with a beam of 1). Sees candidates only, not the model or the batch."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.decoding.hypothesis import Hypothesis, Node, penalised, start_node, to_hypothesis
from glassformer.decoding.rules import Rules
from glassformer.decoding.search_settings import Beam

Candidate = tuple[int, float]
"""A possible next token and its log-probability."""
Child = tuple[float, int, int, int, float]
"""Continuation of a hypothesis: loss so far, row of its parent, rank in that row, token, the token's log-probability.

Tuples sort best first; ties go to the better parent."""


@dataclass(frozen=True)
class BeamStep:
    """Record of one beam search step: the hypotheses before it, all continuations, and those kept or finished."""

    growing: list[Node]
    """The unfinished hypotheses before the step."""
    ranked: list[Child]
    """All continuations of these hypotheses, best first."""
    kept: list[tuple[int, Node]]
    """The continuations kept, each with the row of its parent in `growing`."""
    ended: list[Node]


class BeamSearch:
    """Beam search of one sentence, in progress."""

    def __init__(self, rules: Rules, beam: Beam, bos: int, log: list[BeamStep] | None = None) -> None:
        self.rules = rules
        self.beam = beam
        self.log = log
        """List that every step is appended to; None to record no steps."""
        self.growing: list[Node] = [start_node(bos)]
        self.best: list[Hypothesis] = []
        """The n best finished hypotheses so far, best first; ties in the order in which they were found."""

    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[int]:
        """Take one step with the candidates of each unfinished hypothesis, most likely first.

        Returns for each new unfinished hypothesis the row of its parent; empty when the search is over.
        """
        k = self.beam.width
        kept: list[tuple[int, Node]] = []
        ended: list[Node] = []
        ranked = self._ranked(candidates)
        for place, (_, row, rank, token, log_p) in enumerate(ranked):
            parent = self.growing[row]
            protected = self.beam.keep_greedy and parent.greedy and rank == 0
            if token == self.rules.eos:
                if place < k or protected:
                    ended.append(parent.then(token, log_p, rank == 0))
            elif len(kept) < k:
                kept.append((row, parent.then(token, log_p, rank == 0)))
            elif protected:
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
        """All continuations of the unfinished hypotheses, best first."""
        diversity = self.beam.diversity
        children = [
            (diversity * rank - node.total - log_p, row, rank, token, log_p)
            for row, (node, row_candidates) in enumerate(zip(self.growing, candidates, strict=True))
            for rank, (token, log_p) in enumerate(row_candidates)
        ]
        children.sort()
        return self._spread(children) if self.rules.phrases else children

    def _spread(self, ranked: list[Child]) -> list[Child]:
        """Reorder continuations for required phrases: taken in turn from banks of equal progress, most progress first.

        Otherwise a phrase would be put off until nothing else fits (dynamic beam allocation, arXiv:1804.06609).
        """
        banks: dict[int, list[Child]] = {}
        for child in ranked:
            _, row, _, token, _ = child
            banks.setdefault(self.rules.progress([*self.growing[row].tokens, token]), []).append(child)
        turns = itertools.zip_longest(*(banks[progress] for progress in sorted(banks, reverse=True)))
        return [child for turn in turns for child in turn if child is not None]

    def _end(self, node: Node) -> None:
        self.best.append(to_hypothesis(node, self.beam.length_penalty))
        self.best.sort(key=lambda hypothesis: -hypothesis.score)
        del self.best[self.beam.n_best :]

    def _may_improve(self) -> bool:
        """Whether an unfinished hypothesis could still reach the n best.

        A log-probability only falls, and at best is divided by the maximum length; so stopping early misses nothing.
        """
        if not self.growing or len(self.best) < self.beam.n_best:
            return bool(self.growing)
        if self.beam.width == 1:
            return False
        bound = penalised(max(node.total for node in self.growing), self.rules.limit, self.beam.length_penalty)
        return bound > self.best[-1].score
