"""Batch search step by step: the step model predicts for all hypotheses at once; each sentence's search decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from glassformer.decoding.beam import BeamSearch, Candidate
from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.next_tokens import NextTokens, candidates_per_row, sampled_candidates, top_candidates
from glassformer.decoding.rules import AllowedTokens, Request, Rules
from glassformer.decoding.sampling import Sampling
from glassformer.decoding.search_settings import Beam, Sample, SearchSettings
from glassformer.decoding.step_model import StepModel

SearchResult = tuple[int, list[Hypothesis]]
"""Result of a search: the number of the task, and its hypotheses, best first."""


@dataclass(frozen=True)
class SearchTask:
    """One sentence to translate in a batch: its request, rules and cost."""

    number: int
    request: Request
    rules: Rules
    cost: int
    """Maximum number of KV cache positions that the search needs."""


class BatchSearch(Protocol):
    """The running searches of a batch of sentences, which join and leave it."""

    def join(self, tasks: Sequence[SearchTask]) -> None:
        """Add these sentences to the batch."""

    def advance(self) -> list[SearchResult]:
        """Take one or several steps; finished sentences are returned and removed from the batch."""


@runtime_checkable
class HasNativeSearch(Protocol):
    """A step model that has a beam search of its own, with the same results as `BeamSearch`."""

    def batch_search(self, settings: Beam, suppress: Sequence[int]) -> BatchSearch:
        """Open an empty batch search by the model's own beam search."""


class StepwiseBatchSearch:
    """Batch search one decoding step at a time, for any step model, beam search or sampling, and any rules."""

    def __init__(self, step_model: StepModel, settings: SearchSettings, suppress: Sequence[int]) -> None:
        self.step_model, self.settings, self.suppress = step_model, settings, suppress
        self.session = step_model.open(settings.width)
        self.running: dict[int, BeamSearch | Sampling] = {}

    def join(self, tasks: Sequence[SearchTask]) -> None:
        self.session.join([task.request.source for task in tasks], [task.rules.limit for task in tasks])
        self.running |= {task.number: self._begin(task) for task in tasks}

    def advance(self) -> list[SearchResult]:
        """Advance every sentence by one step; finished sentences are removed and returned."""
        searches = list(self.running.values())
        newest = [node.token for search in searches for node in search.growing]
        prediction = self.session.step(newest, candidates_per_row(self.settings), self.suppress)
        candidates = self._candidates(prediction, searches)
        rows: list[int] = []
        first = 0
        for search in searches:
            count = len(search.growing)
            rows += [first + row for row in search.advance(candidates[first : first + count])]
            first += count
        finished = [(number, search.best) for number, search in self.running.items() if not search.growing]
        for number, _ in finished:
            del self.running[number]
        self.session.keep(rows)
        return finished

    def _begin(self, task: SearchTask) -> BeamSearch | Sampling:
        if isinstance(self.settings, Sample):
            return Sampling(task.rules, self.settings, self.step_model.bos, task.request.source)
        assert isinstance(self.settings, Beam)
        return BeamSearch(task.rules, self.settings, self.step_model.bos)

    def _candidates(self, prediction: NextTokens, searches: Sequence[BeamSearch | Sampling]) -> list[list[Candidate]]:
        allowed = [tokens for search in searches for tokens in _allowed_tokens(search)]
        if isinstance(self.settings, Sample):
            uniforms = [numbers for search in searches if isinstance(search, Sampling) for numbers in search.uniforms()]
            return sampled_candidates(prediction, allowed, uniforms, self.settings, self.suppress, self.step_model.eos)
        count = candidates_per_row(self.settings)
        return top_candidates(prediction, allowed, count, self.suppress, self.step_model.eos)


def _allowed_tokens(search: BeamSearch | Sampling) -> list[AllowedTokens]:
    """The allowed next tokens of each unfinished hypothesis of a search; all have the same length."""
    rules = search.rules
    if rules.reads_tokens:
        return [rules.allowed_tokens(node.length, node.tokens) for node in search.growing]
    return [rules.allowed_tokens(search.growing[0].length)] * len(search.growing)
