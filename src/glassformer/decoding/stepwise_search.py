"""Searches that take their steps together: the model is asked for all at once, and each sentence decides for itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from glassformer.decoding.beam import BeamSearch, Candidate
from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.next_tokens import NextTokens, drawn, likeliest, looked_at
from glassformer.decoding.rules import AllowedTokens, Request, Rules
from glassformer.decoding.sampling import Sampling
from glassformer.decoding.search_settings import Beam, Sample, SearchSettings
from glassformer.decoding.step_model import StepModel

Found = tuple[int, list[Hypothesis]]
"""The number of a task, and what was found for it, best first."""


@dataclass(frozen=True)
class SearchTask:
    """One sentence to be searched for."""

    number: int
    request: Request
    rules: Rules
    cost: int
    """Positions to be remembered for it, at most."""


class BatchSearch(Protocol):
    """Searches under way."""

    def join(self, tasks: Sequence[SearchTask]) -> None:
        """Take these in too."""

    def advance(self) -> list[Found]:
        """Go on, by a step or several; what is over is returned, and forgotten."""


@runtime_checkable
class HasNativeSearch(Protocol):
    """A step_model that has a beam search of its own, which finds what ours finds."""

    def batch_search(self, settings: Beam, suppress: Sequence[int]) -> BatchSearch:
        """Nothing under way yet."""


class StepwiseBatchSearch:
    """A step at a time, for any step_model, any search and any rules."""

    def __init__(self, step_model: StepModel, settings: SearchSettings, suppress: Sequence[int]) -> None:
        self.step_model, self.settings, self.suppress = step_model, settings, suppress
        self.session = step_model.open(settings.width)
        self.under_way: dict[int, BeamSearch | Sampling] = {}

    def join(self, tasks: Sequence[SearchTask]) -> None:
        self.session.join([task.request.source for task in tasks], [task.rules.limit for task in tasks])
        self.under_way |= {task.number: self._begun(task) for task in tasks}

    def advance(self) -> list[Found]:
        """Every sentence takes one step; those whose search is over are taken out and returned."""
        searches = list(self.under_way.values())
        newest = [node.token for one in searches for node in one.growing]
        candidates = self._candidates(self.session.step(newest, looked_at(self.settings), self.suppress), searches)
        rows: list[int] = []
        before = 0
        for one in searches:
            count = len(one.growing)
            rows += [before + row for row in one.advance(candidates[before : before + count])]
            before += count
        over = [(number, one.best) for number, one in self.under_way.items() if not one.growing]
        for number, _ in over:
            del self.under_way[number]
        self.session.keep(rows)
        return over

    def _begun(self, task: SearchTask) -> BeamSearch | Sampling:
        if isinstance(self.settings, Sample):
            return Sampling(task.rules, self.settings, self.step_model.bos, task.request.source)
        assert isinstance(self.settings, Beam)
        return BeamSearch(task.rules, self.settings, self.step_model.bos)

    def _candidates(self, said: NextTokens, searches: Sequence[BeamSearch | Sampling]) -> list[list[Candidate]]:
        choices = [choice for one in searches for choice in _choices(one)]
        if isinstance(self.settings, Sample):
            chances = [own for one in searches if isinstance(one, Sampling) for own in one.chances()]
            return drawn(said, choices, chances, self.settings, self.suppress, self.step_model.eos)
        return likeliest(said, choices, looked_at(self.settings), self.suppress, self.step_model.eos)


def _choices(one: BeamSearch | Sampling) -> list[AllowedTokens]:
    """What may come next in each of its rows, which are all of one length."""
    rules = one.rules
    if rules.reads_tokens:
        return [rules.choice(node.length, node.tokens) for node in one.growing]
    return [rules.choice(one.growing[0].length)] * len(one.growing)
