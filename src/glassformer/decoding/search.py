"""Many sentences' searches together: the model is asked for all at once, and each sentence decides for itself."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.decoding.beam import BeamSearch, Candidate
from glassformer.decoding.candidates import Next, drawn, likeliest
from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.predictor import Prediction, Predictor
from glassformer.decoding.rules import Choice, Request, Rules, rules_for
from glassformer.decoding.sample import Sampling
from glassformer.decoding.settings import Beam, Sample, Search
from glassformer.decoding.workers import Hands, together
from glassformer.errors import InputError

POSITIONS = 16_000
"""Source and target positions of all hypotheses that may be remembered at once, unless told otherwise."""

Found = tuple[int, list[Hypothesis]]


@dataclass(frozen=True)
class Load:
    """How much is worked on at once. No answer depends on it."""

    positions: int = POSITIONS
    """Source and target positions that a worker remembers, at most, unless one sentence alone needs more."""
    sentences: int | None = None
    """Sentences that a worker has under way, at most; None for as many as fit."""
    workers: int = 1
    """Threads that search, each its own sentences."""


@dataclass(frozen=True)
class Task:
    """One sentence to be searched for."""

    number: int
    request: Request
    rules: Rules
    cost: int
    """Positions to be remembered for it, at most."""


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
    suppress = _suppressed(predictor, how)
    tasks = [_task(predictor, number, request, how) for number, request in enumerate(requests)]
    tasks.sort(key=lambda task: -task.cost)
    hands = Hands(tasks, min(load.workers, len(tasks)))
    return together([_work(predictor, hands, i, how, load, suppress) for i in range(hands.count)], hands.stop)


@torch.no_grad()
def _work(
    predictor: Predictor, hands: Hands[Task], worker: int, how: Search, load: Load, suppress: Sequence[int]
) -> Iterator[Found]:
    """What one worker finds: sentences come in while there is room, take their steps together, and leave."""
    prediction = predictor.open(how.width)
    under_way: dict[int, BeamSearch | Sampling] = {}
    costs: dict[int, int] = {}
    while not hands.stopped:
        if joining := _joining(hands, worker, list(costs.values()), predictor.refills, load):
            prediction.join([task.request.source for task in joining], [task.rules.limit for task in joining])
            for task in joining:
                under_way[task.number] = _begun(predictor, task.request, task.rules, how)
                costs[task.number] = task.cost
        if not under_way:
            return
        for number, best in _step(predictor, prediction, under_way, how, suppress):
            del costs[number]
            yield number, best


def _joining(hands: Hands[Task], worker: int, costs: list[int], refills: bool, load: Load) -> list[Task]:
    """The sentences to take in now, beside those of these costs.

    A worker fills up when a quarter of its room is free: reading a few sources at a time would waste the matrices.
    """
    most = load.sentences or math.inf
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


def _step(
    predictor: Predictor,
    prediction: Prediction,
    under_way: dict[int, BeamSearch | Sampling],
    how: Search,
    suppress: Sequence[int],
) -> list[Found]:
    """Every sentence takes one step; those whose search is over are taken out and returned."""
    searches = list(under_way.values())
    said = prediction.step([node.token for one in searches for node in one.growing], _looked_at(how), suppress)
    candidates = _candidates(predictor, said, searches, how, suppress)
    rows: list[int] = []
    before = 0
    for one in searches:
        count = len(one.growing)
        rows += [before + row for row in one.advance(candidates[before : before + count])]
        before += count
    over = [(number, one.best) for number, one in under_way.items() if not one.growing]
    for number, _ in over:
        del under_way[number]
    prediction.keep(rows)
    return over


def _candidates(
    predictor: Predictor,
    said: Next,
    searches: Sequence[BeamSearch | Sampling],
    how: Search,
    suppress: Sequence[int],
) -> list[list[Candidate]]:
    choices = [choice for one in searches for choice in _choices(one)]
    if isinstance(how, Sample):
        chances = [own for one in searches if isinstance(one, Sampling) for own in one.chances()]
        return drawn(said, choices, chances, how, suppress, predictor.eos)
    return likeliest(said, choices, _looked_at(how), suppress, predictor.eos)


def _looked_at(how: Search) -> int:
    """Candidates of each row. One may be the end, and then there are still enough to go on with."""
    if isinstance(how, Sample):
        return 0
    return 1 if how.width == 1 else how.width + 1


def _choices(one: BeamSearch | Sampling) -> list[Choice]:
    """What may come next in each of its rows, which are all of one length."""
    rules = one.rules
    if rules.reads_tokens:
        return [rules.choice(node.length, node.tokens) for node in one.growing]
    return [rules.choice(one.growing[0].length)] * len(one.growing)


def _begun(predictor: Predictor, request: Request, rules: Rules, how: Search) -> BeamSearch | Sampling:
    if isinstance(how, Sample):
        return Sampling(rules, how, predictor.bos, request.source)
    assert isinstance(how, Beam)
    return BeamSearch(rules, how, predictor.bos)


def _task(predictor: Predictor, number: int, request: Request, how: Search) -> Task:
    rules = _rules(predictor, request, how)
    # Hypotheses of a sentence can share its source only where rows are not all alike in shape.
    shared = 1 if predictor.refills else how.width
    return Task(number, request, rules, cost=shared * len(request.source) + how.width * rules.limit)


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


def _suppressed(predictor: Predictor, how: Search) -> list[int]:
    """The tokens that are never written; padding is no token of a target."""
    for token in how.suppress:
        if token == predictor.eos or token >= predictor.vocab_size:
            raise InputError(
                f"Token {token} cannot be suppressed: it is "
                + ("the end of sentence." if token == predictor.eos else "none of the model's.")
            )
    return sorted({*how.suppress, predictor.pad})
