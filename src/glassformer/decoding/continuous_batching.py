"""Continuous batching on several workers: sentences join running batches as others finish and leave when complete."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.rules import Request, Rules, rules_for
from glassformer.decoding.search_settings import Beam, SearchSettings
from glassformer.decoding.step_model import StepModel
from glassformer.decoding.stepwise_search import (
    BatchSearch,
    HasNativeSearch,
    SearchResult,
    SearchTask,
    StepwiseBatchSearch,
)
from glassformer.decoding.work_queue import WorkQueue, run_workers
from glassformer.errors import InputError

DEFAULT_MAX_POSITIONS = 16_000
"""Default maximum of source and target positions, over all hypotheses, in a worker's KV cache."""


@dataclass(frozen=True)
class BatchLimits:
    """Limits on the batches of a search and on its worker threads. Results do not depend on them."""

    positions: int = DEFAULT_MAX_POSITIONS
    """Maximum of source and target positions in a worker's KV cache, unless one sentence alone needs more."""
    sentences: int | None = None
    """Maximum number of sentences in a worker's batch; None for as many as fit."""
    rows: int | None = None
    """Hypotheses in a worker's batch beyond which throughput no longer grows (approximate); None for as many as fit."""
    workers: int = 1
    """Number of search threads, each with its own sentences."""

    def max_sentences(self, width: int) -> float:
        """Maximum number of sentences in a worker's batch if each has `width` hypotheses."""
        return min(self.sentences or math.inf, max(1, self.rows // width) if self.rows else math.inf)


def search(
    step_model: StepModel, requests: Sequence[Request], settings: SearchSettings, limits: BatchLimits | None = None
) -> list[list[Hypothesis]]:
    """Search for the translations of all requests; returns the hypotheses of each, best first."""
    results: list[list[Hypothesis]] = [[] for _ in requests]
    for number, hypotheses in search_as_completed(step_model, requests, settings, limits):
        results[number] = hypotheses
    return results


def batches_by_cost(costs: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group items of similar cost into batches of indices, most expensive first, each padded batch within the budget.

    An item over the budget forms a batch by itself.
    """
    order = sorted(range(len(costs)), key=lambda i: -costs[i])
    while order:
        count = max(1, budget // max(1, costs[order[0]]))
        yield order[:count]
        order = order[count:]


def search_as_completed(
    step_model: StepModel, requests: Sequence[Request], settings: SearchSettings, limits: BatchLimits | None = None
) -> Iterator[SearchResult]:
    """Search for the translations of all requests; yields the index and hypotheses of each as it completes.

    Long sentences go first: sentences of similar length share a batch, and no long one is left for the end.
    """
    limits = limits or BatchLimits()
    suppress = suppressed(step_model, settings)
    tasks = [task_for(step_model, number, request, settings) for number, request in enumerate(requests)]
    tasks.sort(key=lambda task: -task.cost)
    queue = WorkQueue(tasks, min(limits.workers, len(tasks)))
    reads_tokens = any(task.rules.reads_tokens for task in tasks)
    batch_searches = [open_batch_search(step_model, settings, suppress, reads_tokens) for _ in range(queue.workers)]
    capacity = BatchCapacity(limits, step_model.refills, settings.width)
    workers = [_work(batch_search, queue, worker, capacity) for worker, batch_search in enumerate(batch_searches)]
    return run_workers(workers, queue.stop)


@torch.no_grad()
def _work(
    batch_search: BatchSearch, queue: WorkQueue[SearchTask], worker: int, capacity: "BatchCapacity"
) -> Iterator[SearchResult]:
    """Loop of one search thread: sentences join while there is capacity, advance together, and leave when finished."""
    costs: dict[int, int] = {}
    while not queue.stopped:
        if joining := _joining_tasks(queue, worker, list(costs.values()), capacity):
            batch_search.join(joining)
            costs |= {task.number: task.cost for task in joining}
        if not costs:
            return
        for number, hypotheses in batch_search.advance():
            del costs[number]
            yield number, hypotheses


def open_batch_search(
    step_model: StepModel, settings: SearchSettings, suppress: Sequence[int], reads_tokens: bool
) -> BatchSearch:
    """Open a batch search: the step model's native one, if any, unless a rule reads tokens; else the stepwise one."""
    if (
        isinstance(step_model, HasNativeSearch)
        and isinstance(settings, Beam)
        and not settings.diversity
        and not reads_tokens
    ):
        return step_model.batch_search(settings, suppress)
    return StepwiseBatchSearch(step_model, settings, suppress)


class BatchCapacity:
    """When sentences may join a running batch, and how many fit; `costs` are those of the sentences already in it."""

    def __init__(self, limits: BatchLimits, refills: bool, width: int) -> None:
        self.positions, self.max_sentences = limits.positions, limits.max_sentences(width)
        self.refills = refills
        """Whether sentences may join while others are under way."""

    def is_open(self, costs: Sequence[int]) -> bool:
        """Whether sentences may join now: an empty batch, or one of whose capacity a quarter is free.

        Encoding a few sources at a time would make poor use of the matrix products.
        """
        is_quarter_free = sum(costs) <= self.positions * 3 // 4 and len(costs) <= self.max_sentences * 3 / 4
        return not costs or (self.refills and is_quarter_free)

    def fits(self, costs: Sequence[int], cost: int) -> bool:
        """Whether one more sentence fits; where all start together, all are padded to the most expensive."""
        used = sum(costs) + cost if self.refills else (len(costs) + 1) * max([*costs, cost])
        return not costs or (len(costs) < self.max_sentences and used <= self.positions)


def _joining_tasks(
    queue: WorkQueue[SearchTask], worker: int, costs: list[int], capacity: BatchCapacity
) -> list[SearchTask]:
    """The sentences that join a running batch now."""
    if not capacity.is_open(costs):
        return []
    joining: list[SearchTask] = []
    while (task := queue.take(worker, lambda task: capacity.fits(costs, task.cost), steal=not costs)) is not None:
        joining.append(task)
        costs.append(task.cost)
    return joining


def task_for(step_model: StepModel, number: int, request: Request, settings: SearchSettings) -> SearchTask:
    """Make a search task of a request: with its rules, and its cost in KV cache positions."""
    rules = _rules(step_model, request, settings)
    # The hypotheses of a sentence can share its source only where rows may differ in shape.
    source_copies = 1 if step_model.refills else settings.width
    return SearchTask(
        number,
        request,
        rules,
        cost=source_copies * len(request.source) + settings.width * (rules.limit + step_model.extra_positions),
    )


def _rules(step_model: StepModel, request: Request, settings: SearchSettings) -> Rules:
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
