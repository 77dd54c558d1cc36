"""Many sentences' searches together: the model is asked for all at once, and each sentence decides for itself."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from glassformer.decoding.beam import BeamSearch, Candidate
from glassformer.decoding.candidates import drawn, likeliest
from glassformer.decoding.hypothesis import Hypothesis, Node
from glassformer.decoding.predictor import Prediction, Predictor
from glassformer.decoding.rules import Choice, Request, Rules, rules_for
from glassformer.decoding.sample import Sampling
from glassformer.decoding.settings import Beam, Sample, Search
from glassformer.errors import InputError

POSITIONS = 16_000
"""Source and target positions of all hypotheses that may be remembered at once, unless told otherwise."""

Found = tuple[int, list[Hypothesis]]


def search(
    predictor: Predictor, requests: Sequence[Request], how: Search, positions: int = POSITIONS
) -> list[list[Hypothesis]]:
    """For each request its hypotheses, best first."""
    found: list[list[Hypothesis]] = [[] for _ in requests]
    for number, hypotheses in as_they_end(predictor, requests, how, positions):
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


@torch.no_grad()
def as_they_end(
    predictor: Predictor, requests: Sequence[Request], how: Search, positions: int = POSITIONS
) -> Iterator[Found]:
    """The number and the hypotheses of each request, in the order in which their searches end.

    Long sentences go first, and those alike in length together: little is padded.
    """
    suppress = _suppressed(predictor, how)
    rules = [_rules(predictor, request, how) for request in requests]
    costs = [how.width * (len(request.source) + own.limit) for request, own in zip(requests, rules, strict=True)]
    for numbers in alike(costs, positions):
        prediction = predictor.start([requests[i].source for i in numbers])
        under_way = {i: _begun(predictor, requests[i], rules[i], how) for i in numbers}
        while under_way:
            yield from _step(prediction, under_way, how, suppress)


def _step(
    prediction: Prediction, under_way: dict[int, BeamSearch | Sampling], how: Search, suppress: Sequence[int]
) -> list[Found]:
    """Every sentence takes one step; those whose search is over are taken out and returned."""
    searches = list(under_way.values())
    logits = prediction.step([node.token for one in searches for node in one.growing])
    candidates = _candidates(logits, searches, how, suppress)
    rows: list[int] = []
    before = 0
    for one in searches:
        count = len(one.growing)
        rows += [before + row for row in one.advance(candidates[before : before + count])]
        before += count
    over = [(number, one.best) for number, one in under_way.items() if not one.growing]
    for number, _ in over:
        del under_way[number]
    if rows:
        prediction.keep(rows)
    return over


def _candidates(
    logits: Tensor, searches: Sequence[BeamSearch | Sampling], how: Search, suppress: Sequence[int]
) -> list[list[Candidate]]:
    choices = [_choice(one.rules, node) for one in searches for node in one.growing]
    eos = searches[0].rules.eos
    if isinstance(how, Sample):
        chances = [own for one in searches if isinstance(one, Sampling) for own in one.chances()]
        return drawn(logits, choices, chances, how, suppress, eos)
    assert isinstance(how, Beam)
    # One candidate of a row may be the end, and then there are still enough to go on with.
    return likeliest(logits, choices, 1 if how.width == 1 else how.width + 1, suppress, eos)


def _choice(rules: Rules, node: Node) -> Choice:
    return rules.choice(node.length, node.tokens if rules.reads_tokens else ())


def _begun(predictor: Predictor, request: Request, rules: Rules, how: Search) -> BeamSearch | Sampling:
    if isinstance(how, Sample):
        return Sampling(rules, how, predictor.bos, request.source)
    assert isinstance(how, Beam)
    return BeamSearch(rules, how, predictor.bos)


def _rules(predictor: Predictor, request: Request, how: Search) -> Rules:
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
