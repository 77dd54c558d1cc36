"""Beam search (greedy search with a beam of 1): its settings, and the search of one sentence."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from glassformer.decoding.hypothesis import Candidate, Node, penalised, to_hypothesis
from glassformer.decoding.rules import Rules
from glassformer.decoding.search_settings import SearchSettings, SentenceSearch, Width

Child = tuple[float, int, int, int, float]
"""Continuation of a hypothesis: loss so far, row of its parent, rank in that row, token, the token's log-probability.

Tuples sort best first; ties go to the better parent."""


class Beam(SearchSettings):
    """Beam search: keep the best few partial targets of each sentence and extend all of them.

    The search ends when no unfinished hypothesis could still reach the `n_best`.

    >>> translator = gf.load("street", search=gf.Beam(size=8, n_best=2))
    """

    size: Width = 4
    """Beam size: number of hypotheses kept for each sentence.

    1 is greedy search: the most likely token at every step, up to the first end of sentence."""
    diversity: Annotated[float, Field(ge=0, le=1e6)] = 0.0
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

    def begin(self, rules: Rules, bos: int, source: Sequence[int]) -> "BeamSearch":
        return BeamSearch(rules, self, bos)

    def as_beam(self) -> "Beam":
        return self


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


class BeamSearch(SentenceSearch):
    """Beam search of one sentence, in progress. `best` has ties in the order in which they were found."""

    def __init__(self, rules: Rules, beam: Beam, bos: int, log: list[BeamStep] | None = None) -> None:
        super().__init__(rules, bos)
        self.beam = beam
        self.log = log
        """List that every step is appended to; None to record no steps."""

    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[int]:
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
