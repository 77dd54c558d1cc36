"""Batch search step by step: the step model predicts for all hypotheses at once; each sentence's search decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.next_tokens import TokenChoice
from glassformer.decoding.rules import Request, Rules
from glassformer.decoding.search_settings import SearchSettings, SentenceSearch
from glassformer.decoding.step_model import StepModel
from glassformer.decoding.vocabulary_shortlist import HasShortlist, RestrictedSession, TokenList

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
    """A step model that has searches of its own, with the same results as `StepwiseBatchSearch`."""

    def batch_search(self, settings: SearchSettings, suppress: Sequence[int], reads_tokens: bool) -> BatchSearch | None:
        """Open an empty batch search; None if it has no search with these settings or for rules that read tokens."""


class StepwiseBatchSearch:
    """Batch search one decoding step at a time, for any step model, any search and any rules."""

    def __init__(self, step_model: StepModel, settings: SearchSettings, suppress: Sequence[int]) -> None:
        self.step_model, self.settings, self.suppress = step_model, settings, suppress
        self.session = step_model.open(settings.width)
        self.running: dict[int, SentenceSearch] = {}

    def join(self, tasks: Sequence[SearchTask]) -> None:
        self.session.join([task.request.source for task in tasks], [task.rules.limit for task in tasks])
        lists = token_lists(self.step_model, tasks)
        if lists is not None and isinstance(self.session, RestrictedSession):
            self.session.restrict(lists)
        for task in tasks:
            self.running[task.number] = self.settings.begin(task.rules, self.step_model.bos, task.request.source)

    def advance(self) -> list[SearchResult]:
        """Advance every sentence by one step; finished sentences are removed and returned."""
        searches = list(self.running.values())
        newest = [node.token for search in searches for node in search.growing]
        prediction = self.session.step(newest, self.settings.candidates_per_row, self.suppress)
        allowed = [tokens for search in searches for tokens in search.allowed_tokens()]
        choice = TokenChoice(prediction, allowed, self.suppress, self.step_model.eos)
        candidates = self.settings.candidates(choice, searches)
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


def token_lists(step_model: StepModel, tasks: Sequence[SearchTask]) -> list[TokenList] | None:
    """The tokens that each sentence may use, by the step model's shortlist; None if it has none."""
    if not isinstance(step_model, HasShortlist) or step_model.shortlist is None:
        return None
    return [step_model.shortlist.tokens(task.request, task.rules.eos) for task in tasks]
