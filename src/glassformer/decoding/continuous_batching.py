"""Many sentences' searches: dealt out to workers, taken in while there is room, found as they end."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.rules import Request, Rules, rules_for
from glassformer.decoding.search_settings import Beam, Search
from glassformer.decoding.step_model import Predictor
from glassformer.decoding.stepwise_search import Finder, FindsItself, Found, Stepwise, Task
from glassformer.decoding.work_queue import Hands, together
from glassformer.errors import InputError

POSITIONS = 16_000
"""Source and target positions of all hypotheses that may be remembered at once, unless told otherwise."""


@dataclass(frozen=True)
class Load:
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
    predictor: Predictor, requests: Sequence[Request], how: Search, load: Load | None = None
) -> list[list[Hypothesis]]:
    """For each request its hypotheses, best first."""
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for number, hypotheses in as_they_end(predictor, requests, how, load):
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
    predictor: Predictor, requests: Sequence[Request], how: Search, load: Load | None = None
) -> Iterator[Found]:
    """The number and the hypotheses of each request, in the order in which their searches end.

    Long sentences go first: those alike in length go together, and no long one is left for the end.
    """
    load = load or Load()
    suppress = suppressed(predictor, how)
    tasks = [task_for(predictor, number, request, how) for number, request in enumerate(requests)]
    tasks.sort(key=lambda task: -task.cost)
    hands = Hands(tasks, min(load.workers, len(tasks)))
    finders = [_finder(predictor, how, suppress, tasks) for _ in range(hands.count)]
    works = [_work(own, hands, i, predictor.refills, load, how.width) for i, own in enumerate(finders)]
    return together(works, hands.stop)


@torch.no_grad()
def _work(finder: Finder, hands: Hands[Task], worker: int, refills: bool, load: Load, width: int) -> Iterator[Found]:
    """What one worker finds: sentences come in while there is room, take their steps together, and leave."""
    costs: dict[int, int] = {}
    while not hands.stopped:
        if joining := _joining(hands, worker, list(costs.values()), refills, load, width):
            finder.join(joining)
            costs |= {task.number: task.cost for task in joining}
        if not costs:
            return
        for number, best in finder.advance():
            del costs[number]
            yield number, best


def _finder(predictor: Predictor, how: Search, suppress: Sequence[int], tasks: Sequence[Task]) -> Finder:
    """Whoever searches: where no rule reads tokens, the predictor by itself if it can; else step by step."""
    reads_tokens = any(task.rules.reads_tokens for task in tasks)
    if isinstance(predictor, FindsItself) and isinstance(how, Beam) and not how.diversity and not reads_tokens:
        return predictor.finder(how, suppress)
    return Stepwise(predictor, how, suppress)


def _joining(hands: Hands[Task], worker: int, costs: list[int], refills: bool, load: Load, width: int) -> list[Task]:
    """The sentences to take in now, beside those of these costs.

    A worker fills up when a quarter of its room is free: reading a few sources at a time would waste the matrices.
    """
    most = load.most(width)
    if costs and not (refills and sum(costs) <= load.positions * 3 // 4 and len(costs) <= most * 3 / 4):
        return []

    def fits(task: Task) -> bool:
        if not costs:
            return True
        # Where all begin together, all are padded to the dearest, which is the first.
        used = sum(costs) + task.cost if refills else (len(costs) + 1) * costs[0]
        return len(costs) < most and used <= load.positions

    joining: list[Task] = []
    while (task := hands.take(worker, fits, steal=not costs)) is not None:
        joining.append(task)
        costs.append(task.cost)
    return joining


def task_for(predictor: Predictor, number: int, request: Request, how: Search) -> Task:
    """A request with its rules and its cost."""
    rules = _rules(predictor, request, how)
    # Hypotheses of a sentence can share its source only where rows are not all alike in shape.
    shared = 1 if predictor.refills else how.width
    return Task(number, request, rules, cost=shared * len(request.source) + how.width * (rules.limit + predictor.spare))


def _rules(predictor: Predictor, request: Request, how: Search) -> Rules:
    if predictor.pad in request.source:
        raise InputError(f"A source cannot contain the padding token, {predictor.pad}.")
    if predictor.longest is not None and len(request.source) > predictor.longest:
        raise InputError(
            f"A source of {len(request.source)} tokens is longer than the {predictor.longest} that this model has "
            "positions for: split it."
        )
    for token in (*request.prefix, *(token for phrase in request.phrases for token in phrase)):
        if not 0 <= token < predictor.vocab_size or token == predictor.pad:
            raise InputError(f"The forced token {token} is none of the model's {predictor.vocab_size} tokens.")
    return rules_for(request, predictor.eos, how, predictor.longest)


def suppressed(predictor: Predictor, how: Search) -> list[int]:
    """The tokens that are never written; padding is no token of a target."""
    for token in how.suppress:
        if token == predictor.eos or token >= predictor.vocab_size:
            raise InputError(
                f"Token {token} cannot be suppressed: it is "
                + ("the end of sentence." if token == predictor.eos else "none of the model's.")
            )
    return sorted({*how.suppress, predictor.pad})
