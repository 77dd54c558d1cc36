"""Many sentences' searches: dealt out to workers, taken in while there is room, found as they end."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.rules import Request, Rules, rules_for
from glassformer.decoding.search_settings import Beam, SearchSettings
from glassformer.decoding.step_model import StepModel
from glassformer.decoding.stepwise_search import BatchSearch, Found, HasNativeSearch, SearchTask, StepwiseBatchSearch
from glassformer.decoding.work_queue import WorkQueue, together
from glassformer.errors import InputError

POSITIONS = 16_000
"""Source and target positions of all hypotheses that may be remembered at once, unless told otherwise."""


@dataclass(frozen=True)
class BatchLimits:
    """How much is worked on at once. No answer depends on it."""

    positions: int = POSITIONS
    """Source and target positions that a worker remembers, at most, unless one sentence alone needs more."""
    sentences: int | None = None
    """Sentences that a worker has under way, at most; None for as many as fit."""
    rows: int | None = None
    """Hypotheses that a worker has under way, about: more would gain nothing; None for as many as fit."""
    workers: int = 1
    """Threads that search, each its own sentences."""

    def most(self, width: int) -> float:
        """Sentences of so many hypotheses that a worker has under way, at most."""
        return min(self.sentences or math.inf, max(1, self.rows // width) if self.rows else math.inf)


def search(
    step_model: StepModel, requests: Sequence[Request], settings: SearchSettings, limits: BatchLimits | None = None
) -> list[list[Hypothesis]]:
    """For each request its hypotheses, best first."""
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for number, hypotheses in as_they_end(step_model, requests, settings, limits):
        found[number] = hypotheses
    return found


def alike(costs: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The numbers of all items in batches of like cost, the dearest first, each padded batch within the budget.

    An item that is dearer than that goes alone.
    """
    order = sorted(range(len(costs)), key=lambda i: -costs[i])
    while order:
        count = max(1, budget // max(1, costs[order[0]]))
        yield order[:count]
        order = order[count:]


def as_they_end(
    step_model: StepModel, requests: Sequence[Request], settings: SearchSettings, limits: BatchLimits | None = None
) -> Iterator[Found]:
    """The number and the hypotheses of each request, in the order in which their searches end.

    Long sentences go first: those alike in length go together, and no long one is left for the end.
    """
    limits = limits or BatchLimits()
    suppress = suppressed(step_model, settings)
    tasks = [task_for(step_model, number, request, settings) for number, request in enumerate(requests)]
    tasks.sort(key=lambda task: -task.cost)
    queue = WorkQueue(tasks, min(limits.workers, len(tasks)))
    batch_searches = [_open_batch_search(step_model, settings, suppress, tasks) for _ in range(queue.count)]
    works = [_work(own, queue, i, step_model.refills, limits, settings.width) for i, own in enumerate(batch_searches)]
    return together(works, queue.stop)


@torch.no_grad()
def _work(
    batch_search: BatchSearch, queue: WorkQueue[SearchTask], worker: int, refills: bool, limits: BatchLimits, width: int
) -> Iterator[Found]:
    """What one worker finds: sentences come in while there is room, take their steps together, and leave."""
    costs: dict[int, int] = {}
    while not queue.stopped:
        if joining := _joining(queue, worker, list(costs.values()), refills, limits, width):
            batch_search.join(joining)
            costs |= {task.number: task.cost for task in joining}
        if not costs:
            return
        for number, best in batch_search.advance():
            del costs[number]
            yield number, best


def _open_batch_search(
    step_model: StepModel, settings: SearchSettings, suppress: Sequence[int], tasks: Sequence[SearchTask]
) -> BatchSearch:
    """Whoever searches: where no rule reads tokens, the step_model by itself if it can; else step by step."""
    reads_tokens = any(task.rules.reads_tokens for task in tasks)
    if (
        isinstance(step_model, HasNativeSearch)
        and isinstance(settings, Beam)
        and not settings.diversity
        and not reads_tokens
    ):
        return step_model.batch_search(settings, suppress)
    return StepwiseBatchSearch(step_model, settings, suppress)


def _joining(
    queue: WorkQueue[SearchTask], worker: int, costs: list[int], refills: bool, limits: BatchLimits, width: int
) -> list[SearchTask]:
    """The sentences to take in now, beside those of these costs.

    A worker fills up when a quarter of its room is free: reading a few sources at a time would waste the matrices.
    """
    most = limits.most(width)
    if costs and not (refills and sum(costs) <= limits.positions * 3 // 4 and len(costs) <= most * 3 / 4):
        return []

    def fits(task: SearchTask) -> bool:
        if not costs:
            return True
        # Where all begin together, all are padded to the dearest, which is the first.
        used = sum(costs) + task.cost if refills else (len(costs) + 1) * costs[0]
        return len(costs) < most and used <= limits.positions

    joining: list[SearchTask] = []
    while (task := queue.take(worker, fits, steal=not costs)) is not None:
        joining.append(task)
        costs.append(task.cost)
    return joining


def task_for(step_model: StepModel, number: int, request: Request, settings: SearchSettings) -> SearchTask:
    """A request with its rules and its cost."""
    rules = _rules(step_model, request, settings)
    # Hypotheses of a sentence can share its source only where rows are not all alike in shape.
    shared = 1 if step_model.refills else settings.width
    return SearchTask(
        number, request, rules, cost=shared * len(request.source) + settings.width * (rules.limit + step_model.spare)
    )


def _rules(step_model: StepModel, request: Request, settings: SearchSettings) -> Rules:
    if step_model.pad in request.source:
        raise InputError(f"A source cannot contain the padding token, {step_model.pad}.")
    if step_model.max_tokens is not None and len(request.source) > step_model.max_tokens:
        raise InputError(
            f"A source of {len(request.source)} tokens is longer than the {step_model.max_tokens} that this model has "
            "positions for: split it."
        )
    for token in (*request.prefix, *(token for phrase in request.phrases for token in phrase)):
        if not 0 <= token < step_model.vocab_size or token == step_model.pad:
            raise InputError(f"The forced token {token} is none of the model's {step_model.vocab_size} tokens.")
    return rules_for(request, step_model.eos, settings, step_model.max_tokens)


def suppressed(step_model: StepModel, settings: SearchSettings) -> list[int]:
    """The tokens that are never written; padding is no token of a target."""
    for token in settings.suppress:
        if token == step_model.eos or token >= step_model.vocab_size:
            raise InputError(
                f"Token {token} cannot be suppressed: it is "
                + ("the end of sentence." if token == step_model.eos else "none of the model's.")
            )
    return sorted({*settings.suppress, step_model.pad})
