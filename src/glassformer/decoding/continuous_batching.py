"""Continuous batching: sentences join running batches as others finish, and leave when complete.

The loop of a worker thread is `run_batches`, for files and for the server. They differ in the `TaskSource`: which
sentence is next, and what happens to one whose search fails.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Generic, Protocol, TypeVar

from glassformer.decoding.batch_limits import BatchLimits
from glassformer.decoding.hypothesis import Attention, Head, Hypothesis
from glassformer.decoding.rules import Request, Rules, rules_for
from glassformer.decoding.scoring import attention_of_targets, score_targets
from glassformer.decoding.search_settings import SearchSettings
from glassformer.decoding.step_model import StepModel
from glassformer.decoding.stepwise_search import (
    BatchSearch,
    HasNativeSearch,
    SearchTask,
    StepwiseBatchSearch,
)
from glassformer.decoding.work_queue import WorkQueue, run_workers
from glassformer.errors import InputError

Task = TypeVar("Task", bound=SearchTask)


class RunningBatch(Generic[Task]):
    """A batch search in progress, and the sentences in it."""

    def __init__(self, open_search: Callable[[], BatchSearch], limits: BatchLimits, refills: bool, width: int) -> None:
        self.tasks: dict[int, Task] = {}
        self._joining: list[Task] = []
        self._open_search = open_search
        self._positions = limits.positions
        sentences_by_rows = max(1, limits.rows // width) if limits.rows else math.inf
        self._max_sentences = min(limits.sentences or math.inf, sentences_by_rows)
        self._refills = refills
        """Whether sentences may join while others are under way."""

    def fill(self, take: Callable[[Callable[[Task], bool]], Task | None], most: float = math.inf) -> int:
        """Take the sentences that join now, at most `most`; returns their number.

        `take` returns the next waiting sentence if the function passed to it, whether a sentence fits, is true for it.
        """
        if self._is_open():
            while len(self._joining) < most and (task := take(self._fits)) is not None:
                self._joining.append(task)
                self.tasks[task.number] = task
        return len(self._joining)

    def advance(self) -> Iterator[tuple[Task, list[Hypothesis]]]:
        """Let the sentences join, take one or several steps, and yield the sentences that are finished."""
        if self._joining:
            self._search.join(self._joining)
            self._joining = []
        for number, hypotheses in self._search.advance():
            yield self.tasks.pop(number), hypotheses

    @cached_property
    def _search(self) -> BatchSearch:
        return self._open_search()  # at the first step, so that its errors are the batch's

    def _is_open(self) -> bool:
        """Whether sentences may join now: an empty batch, or one of whose capacity a quarter is free.

        Encoding a few sources at a time would make poor use of the matrix products.
        """
        positions = sum(task.cost for task in self.tasks.values())
        is_quarter_free = positions <= self._positions * 3 // 4 and len(self.tasks) <= self._max_sentences * 3 / 4
        return not self.tasks or (self._refills and is_quarter_free)

    def _fits(self, task: Task) -> bool:
        """Whether one more sentence fits; where all start together, all are padded to the most expensive."""
        costs = [*(other.cost for other in self.tasks.values()), task.cost]
        positions = sum(costs) if self._refills else len(costs) * max(costs)
        return not self.tasks or (len(self.tasks) < self._max_sentences and positions <= self._positions)


class TaskSource(Protocol[Task]):
    """Where a worker's batches get their sentences."""

    def fill(self, batches: dict[Hashable, RunningBatch[Task]]) -> bool:
        """Fill batches with waiting sentences, open and remove some; False if the worker should end."""

    def fail(self, batch: RunningBatch[Task], error: Exception) -> None:
        """Handle an error in the search of a batch."""


def run_batches(source: TaskSource[Task]) -> Iterator[tuple[Task, list[Hypothesis]]]:
    """Loop of one worker thread: yields every sentence as it is finished.

    Batches advance in turns, so that a short search does not wait for a long one.
    """
    batches: dict[Hashable, RunningBatch[Task]] = {}
    while source.fill(batches):
        for batch in batches.values():
            try:
                yield from batch.advance()
            except Exception as error:
                source.fail(batch, error)


class FileTasks:
    """Task source of one worker for a list of sentences: they fill one batch, and an error ends the whole search."""

    def __init__(self, queue: WorkQueue[SearchTask], worker: int, batch: RunningBatch[SearchTask]) -> None:
        self.queue, self.worker, self.batch = queue, worker, batch

    def fill(self, batches: dict[Hashable, RunningBatch[SearchTask]]) -> bool:
        batches[self.worker] = batch = self.batch
        batch.fill(lambda fits: self.queue.take(self.worker, fits, steal=not batch.tasks))
        return bool(batch.tasks) and not self.queue.stopped

    def fail(self, batch: RunningBatch[SearchTask], error: Exception) -> None:
        raise error


class SearchBackend:
    """Searches in glassformer's own code, over a step model (next-token logits per decoding step)."""

    def __init__(self, step_model: StepModel, limits: BatchLimits | None = None) -> None:
        self.step_model, self.max_tokens = step_model, step_model.max_tokens
        self.limits = limits or BatchLimits()
        self.workers = self.limits.workers

    def search(self, requests: Sequence[Request], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Search for the translations of all requests; returns the hypotheses of each, best first.

        Long sentences go first: sentences of similar length share a batch, and no long one is left for the end.
        """
        tasks = self.tasks(requests, settings, range(len(requests)))
        tasks.sort(key=lambda task: -task.cost)
        queue = WorkQueue(tasks, min(self.workers, len(tasks)))
        reads_tokens = any(task.rules.reads_tokens for task in tasks)
        sources = [FileTasks(queue, worker, self.open(settings, reads_tokens)) for worker in range(queue.workers)]
        results: list[list[Hypothesis]] = [[] for _ in requests]
        for task, hypotheses in run_workers([run_batches(source) for source in sources], queue.stop):
            results[task.number] = hypotheses
        return results

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], length_penalty: float = 1.0
    ) -> list[Hypothesis]:
        """Score targets as hypotheses for their sources; an ensemble cannot."""
        return score_targets(self.step_model, sources, targets, length_penalty, self.limits)

    def attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], heads: Sequence[Head]
    ) -> list[Attention]:
        """The weights of these cross-attention heads for given targets; of an ensemble, those of its first model."""
        return attention_of_targets(self.step_model, sources, targets, heads, self.limits)

    def tasks(self, requests: Sequence[Request], settings: SearchSettings, numbers: Iterable[int]) -> list[SearchTask]:
        step_model, width = self.step_model, settings.width
        suppressed(step_model, settings)  # raises its errors before a batch is opened
        # The hypotheses of a sentence can share its source only where rows may differ in shape.
        source_copies = 1 if step_model.refills else width
        rules = [_rules(step_model, request, settings) for request in requests]
        return [
            SearchTask(
                number,
                request,
                rule,
                cost=source_copies * len(request.source) + width * (rule.limit + step_model.extra_positions),
            )
            for number, request, rule in zip(numbers, requests, rules, strict=True)
        ]

    def open(self, settings: SearchSettings, reads_tokens: bool) -> RunningBatch[Task]:
        open_search = partial(self._batch_search, settings, reads_tokens)
        return RunningBatch(open_search, self.limits, self.step_model.refills, settings.width)

    def _batch_search(self, settings: SearchSettings, reads_tokens: bool) -> BatchSearch:
        """The step model's native search, if it has one for these settings; else the stepwise one."""
        step_model, suppress = self.step_model, suppressed(self.step_model, settings)
        if isinstance(step_model, HasNativeSearch):
            native = step_model.batch_search(settings, suppress, reads_tokens)
            if native is not None:
                return native
        return StepwiseBatchSearch(step_model, settings, suppress)


def search(
    step_model: StepModel, requests: Sequence[Request], settings: SearchSettings, limits: BatchLimits | None = None
) -> list[list[Hypothesis]]:
    """Search for the translations of all requests; returns the hypotheses of each, best first."""
    return SearchBackend(step_model, limits).search(requests, settings)


def _rules(step_model: StepModel, request: Request, settings: SearchSettings) -> Rules:
    if not len(request.source):
        raise InputError("A source is empty: it must have at least the end-of-sentence token.")
    if step_model.pad in request.source:
        raise InputError(f"A source must not contain the padding token ({step_model.pad}).")
    if step_model.max_tokens is not None and len(request.source) > step_model.max_tokens:
        raise InputError(
            f"The source has {len(request.source)} tokens, but this model has only {step_model.max_tokens} "
            "positions: split it into shorter parts."
        )
    for token in (*request.prefix, *(token for phrase in request.phrases for token in phrase)):
        if not 0 <= token < step_model.vocab_size or token == step_model.pad:
            raise InputError(
                f"The forced token {token} is not in the model's vocabulary (0 to {step_model.vocab_size - 1}, without "
                f"the padding token {step_model.pad})."
            )
    return rules_for(request, step_model.eos, settings, step_model.max_tokens)


def suppressed(step_model: StepModel, settings: SearchSettings) -> list[int]:
    """The token ids that are never generated: those of the settings, and padding."""
    for token in settings.suppress:
        if token == step_model.eos:
            raise InputError(f"Token {token} cannot be suppressed: it is the end-of-sentence token.")
        if token >= step_model.vocab_size:
            raise InputError(
                f"Token {token} cannot be suppressed: the model's token ids are 0 to {step_model.vocab_size - 1}."
            )
    return sorted({*settings.suppress, step_model.pad})
