"""The laws that every answer keeps, tried on somebody's own model and sentences. Knows ids; prints nothing."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from glassformer.decoding import BatchLimits, Beam, Hypothesis, PlainStepModel, Request, StepModel, score, search
from glassformer.decoding.step_model import UncachedStepModel
from glassformer.engine import EngineOptions, open_search_backend, open_step_model
from glassformer.engine.engine_options import PRECISIONS
from glassformer.engine.native_model import NativeStepModel
from glassformer.model import Transformer

Found = Sequence[list[Hypothesis]]
Case = TypeVar("Case")
TOGETHER = (1, 2, 7, 8, 64)
"""Sentences at once, by which no answer may change."""
TIE = 1e-3
"""Answers that differ by less in their log-probability are equally good: rounding decides between them."""
FEWER_BITS = {"float16": 0.01, "int8": 0.1}
"""By how much the log-probability of a token may differ from float32's, on average over a sentence."""


@dataclass(frozen=True)
class InvariantResult:
    """How a law fared."""

    law: str
    tried: int
    held: int
    worst: float | None = None
    """The largest difference between two log-probabilities that should be equal, where that can be said."""
    note: str = ""


def check_invariants(
    model: Transformer, sources: Sequence[Sequence[int]], beam: Beam, seed: int = 0
) -> Iterator[InvariantResult]:
    """Each law in turn, on every source, first for the plain model and then for the engine that does the work."""
    requests = [Request(source) for source in sources]
    plain = PlainStepModel(model)
    answers = search(plain, requests, beam)
    yield _same("cached = uncached", answers, search(UncachedStepModel(model), requests, beam))
    yield _scored(model, sources, answers, beam)

    opened = open_search_backend([model], EngineOptions())
    engine, workers = opened.step_model, opened.limits.workers
    yield _same(
        "the fast engine = the plain model", answers, search(engine, requests, beam, BatchLimits(workers=workers))
    )
    yield from _of_search(engine, requests, beam)
    yield from _neighbours(engine, requests, beam, workers, seed)
    for precision in PRECISIONS[1:]:
        fewer = open_step_model(model, EngineOptions(precision=precision))
        yield _near(
            precision, model, sources, answers, search(fewer, requests, beam, BatchLimits(workers=workers)), beam
        )


def _of_search(engine: StepModel, requests: Sequence[Request], beam: Beam) -> Iterator[InvariantResult]:
    def found(**changes: object) -> list[list[Hypothesis]]:
        return search(engine, requests, beam.model_copy(update=changes))

    answers = found()
    greedy = search(engine, requests, Beam.greedy())
    yield _equal("beam 1 = greedy", found(size=1, n_best=1, length_penalty=0.0), greedy)
    pairs = zip(found(length_penalty=0.0), greedy, strict=True)
    yield _every("a beam is never worse than greedy", pairs, _at_least_as_good)
    several = found(n_best=beam.size)
    yield _every("n-best lists are sorted and distinct", several, _sorted_and_distinct)
    yield _equal("the first of several = the only one", answers, [own[:1] for own in several])
    begun = [  # as the worst of them does
        Request(request.source, prefix=tuple(own[-1].tokens[:-1][:2]))
        for request, own in zip(requests, several, strict=True)
    ]
    forced = search(engine, begun, beam)
    pairs_of = zip(begun, forced, strict=True)
    yield _every("a forced beginning comes first", pairs_of, lambda pair: _begins(pair[0], pair[1][0]))


def _neighbours(
    engine: StepModel, requests: Sequence[Request], beam: Beam, workers: int, seed: int
) -> Iterator[InvariantResult]:
    exact = isinstance(engine, NativeStepModel)
    same = _equal if exact else _same
    alone = search(engine, requests, beam, BatchLimits(sentences=1))
    bits = "the same bits" if exact else "the same text"
    for count in TOGETHER[1:]:
        yield same(f"{count} at a time: {bits}", alone, search(engine, requests, beam, BatchLimits(sentences=count)))
    yield same(f"as many as fit: {bits}", alone, search(engine, requests, beam, BatchLimits(workers=workers)))
    order = list(range(len(requests)))
    random.Random(seed).shuffle(order)
    shuffled = search(engine, [requests[i] for i in order], beam, BatchLimits(workers=workers))
    yield same(f"shuffled: {bits}", alone, [own for _, own in sorted(zip(order, shuffled, strict=True), key=_first)])


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


def _same(law: str, ours: Found, theirs: Found) -> InvariantResult:
    """The same tokens of the best, sentence by sentence; or others that are as good."""
    pairs = [(one[0], other[0]) for one, other in zip(ours, theirs, strict=True)]
    apart = [abs(one.score - other.score) for one, other in pairs]
    held = [one.tokens == other.tokens or gap <= TIE for (one, other), gap in zip(pairs, apart, strict=True)]
    ties = sum(one.tokens != other.tokens for one, other in pairs) - held.count(False)
    return InvariantResult(law, len(pairs), sum(held), max(apart, default=None), f"{ties} ties" if ties else "")


def _equal(law: str, ours: Found, theirs: Found) -> InvariantResult:
    """The same, to the last bit."""
    return _every(law, zip(ours, theirs, strict=True), lambda pair: pair[0] == pair[1])


def _scored(model: Transformer, sources: Sequence[Sequence[int]], answers: Found, beam: Beam) -> InvariantResult:
    """`score` gives what `search` gave."""
    scored = score(model, sources, [own[0].tokens for own in answers], beam.length_penalty)
    apart = [abs(one[0].score - other.score) for one, other in zip(answers, scored, strict=True)]
    held = sum(gap <= TIE for gap in apart)
    return InvariantResult("translate's score = score's", len(apart), held, max(apart, default=None))


def _near(
    precision: str, model: Transformer, sources: Sequence[Sequence[int]], answers: Found, fewer: Found, beam: Beam
) -> InvariantResult:
    """What fewer bits say of their own answers is near to what float32 says of them."""
    scored = score(model, sources, [own[0].tokens for own in fewer], beam.length_penalty)
    apart = [
        abs(one[0].log_probability - other.log_probability) / len(other.tokens)
        for one, other in zip(fewer, scored, strict=True)
    ]
    same = sum(one[0].tokens == other[0].tokens for one, other in zip(answers, fewer, strict=True))
    held = sum(gap <= FEWER_BITS[precision] for gap in apart)
    law = f"{precision}: a token within {FEWER_BITS[precision]} of float32"
    return InvariantResult(law, len(apart), held, max(apart, default=None), f"{same} of {len(apart)} answers the same")


def _every(law: str, cases: Iterable[Case], holds: Callable[[Case], bool]) -> InvariantResult:
    found = [holds(case) for case in cases]
    return InvariantResult(law, len(found), sum(found))


def _at_least_as_good(pair: tuple[list[Hypothesis], list[Hypothesis]]) -> bool:
    wide, narrow = pair
    return wide[0].score >= narrow[0].score


def _sorted_and_distinct(own: list[Hypothesis]) -> bool:
    scores = [hypothesis.score for hypothesis in own]
    return scores == sorted(scores, reverse=True) and len({tuple(h.tokens) for h in own}) == len(own)


def _begins(request: Request, hypothesis: Hypothesis) -> bool:
    return tuple(hypothesis.tokens[: len(request.prefix)]) == request.prefix
