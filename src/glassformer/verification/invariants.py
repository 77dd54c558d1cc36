"""Invariants of search, checked on a given model and sentences. Token ids only; prints nothing."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from glassformer.decoding import BatchLimits, Beam, Hypothesis, Request, StepModel, search
from glassformer.engine import EngineOptions, fast_precisions, open_search_backend, open_step_model
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.torch_step_model import PlainStepModel, UncachedStepModel, score
from glassformer.model import Transformer

NBestLists = Sequence[list[Hypothesis]]
"""N-best lists: the hypotheses of each sentence, best first."""
Case = TypeVar("Case")
BATCH_SIZES = (2, 7, 8, 64)
"""Batch sizes in sentences, compared with one sentence at a time."""
TIE = 1e-3
"""Maximum difference between the scores of equally good translations, between which rounding decides."""
MAX_DIFFERENCE_FROM_FLOAT32 = {"float16": 0.01, "bfloat16": 0.1, "int8": 0.1}
"""Maximum difference in log-probability per token, averaged over a sentence, by precision."""


@dataclass(frozen=True)
class InvariantResult:
    """The result of checking one invariant."""

    invariant: str
    """The invariant, as a sentence or an equation."""
    tried: int
    """Number of cases in which the invariant was checked."""
    held: int
    """Number of cases in which the invariant holds."""
    worst: float | None = None
    """The largest difference between two scores or log-probabilities that should be equal, if applicable."""
    note: str = ""


def check_invariants(
    model: Transformer, sources: Sequence[Sequence[int]], beam: Beam, seed: int = 0
) -> Iterator[InvariantResult]:
    """Check each invariant on all sources, first for the PyTorch model and then for the default engine."""
    requests = [Request(source) for source in sources]
    plain = PlainStepModel(model)
    plain_results = search(plain, requests, beam)
    uncached = search(UncachedStepModel(model), requests, beam)
    yield _same_best("Decoding with KV cache = decoding without", plain_results, uncached)
    yield _same_scores(model, sources, plain_results, beam)

    backend = open_search_backend([model], EngineOptions())
    engine, workers = backend.step_model, backend.limits.workers
    engine_results = search(engine, requests, beam, BatchLimits(workers=workers))
    yield _same_best("Engine `fast` = engine `plain`", plain_results, engine_results)
    yield from _search_invariants(engine, requests, beam)
    yield from _batch_invariants(engine, requests, beam, workers, seed)
    for precision in fast_precisions()[1:]:
        reduced = open_step_model(model, EngineOptions(precision=precision))
        reduced_results = search(reduced, requests, beam, BatchLimits(workers=workers))
        yield _close_to_float32(precision, model, sources, plain_results, reduced_results, beam)


def _search_invariants(engine: StepModel, requests: Sequence[Request], beam: Beam) -> Iterator[InvariantResult]:
    def results(**changes: object) -> list[list[Hypothesis]]:
        return search(engine, requests, beam.model_copy(update=changes))

    single = results()
    greedy = search(engine, requests, Beam.greedy())
    yield _bitwise_equal("Beam size 1 = greedy search", results(size=1, n_best=1, length_penalty=0.0), greedy)
    pairs = zip(results(length_penalty=0.0), greedy, strict=True)
    yield _every(
        "Beam search is never worse than greedy search", pairs, lambda pair: pair[0][0].score >= pair[1][0].score
    )
    several = results(n_best=beam.size)
    yield _every("N-best lists are sorted and have no duplicates", several, _sorted_and_distinct)
    yield _bitwise_equal("First of an n-best list = single best", single, [n_best[:1] for n_best in several])
    with_prefix = [  # the first tokens of the last hypothesis
        Request(request.source, prefix=tuple(n_best[-1].tokens[:-1][:2]))
        for request, n_best in zip(requests, several, strict=True)
    ]
    forced = [n_best[0].tokens for n_best in search(engine, with_prefix, beam)]
    prefixes = [(request.prefix, tokens) for request, tokens in zip(with_prefix, forced, strict=True)]
    invariant = "A translation begins with its forced prefix"
    yield _every(invariant, prefixes, lambda pair: tuple(pair[1][: len(pair[0])]) == pair[0])


def _batch_invariants(
    engine: StepModel, requests: Sequence[Request], beam: Beam, workers: int, seed: int
) -> Iterator[InvariantResult]:
    bitwise = isinstance(engine, NativeStepModel)
    same = _bitwise_equal if bitwise else _same_best
    independent = "Results are bitwise independent of" if bitwise else "Results do not depend on"
    alone = search(engine, requests, beam, BatchLimits(sentences=1))
    for size in BATCH_SIZES:
        batched = search(engine, requests, beam, BatchLimits(sentences=size))
        yield same(f"{independent} batch composition ({size} sentences per batch)", alone, batched)
    largest = search(engine, requests, beam, BatchLimits(workers=workers))
    yield same(f"{independent} batch composition (as many sentences as fit)", alone, largest)
    order = list(range(len(requests)))
    random.Random(seed).shuffle(order)
    shuffled = search(engine, [requests[i] for i in order], beam, BatchLimits(workers=workers))
    by_index = dict(zip(order, shuffled, strict=True))
    restored = [by_index[i] for i in range(len(requests))]
    yield same(f"{independent} sentence order", alone, restored)


def _same_best(invariant: str, ours: NBestLists, theirs: NBestLists) -> InvariantResult:
    """Check that the best hypotheses of two searches have the same tokens, or are a tie."""
    pairs = [(our_n_best[0], their_n_best[0]) for our_n_best, their_n_best in zip(ours, theirs, strict=True)]
    differences = [abs(our.score - their.score) for our, their in pairs]
    held = [our.tokens == their.tokens or gap <= TIE for (our, their), gap in zip(pairs, differences, strict=True)]
    ties = sum(our.tokens != their.tokens for our, their in pairs) - held.count(False)
    return InvariantResult(
        invariant, len(pairs), sum(held), max(differences, default=None), f"{ties} ties" if ties else ""
    )


def _bitwise_equal(invariant: str, ours: NBestLists, theirs: NBestLists) -> InvariantResult:
    return _every(invariant, zip(ours, theirs, strict=True), lambda pair: pair[0] == pair[1])


def _same_scores(
    model: Transformer, sources: Sequence[Sequence[int]], results: NBestLists, beam: Beam
) -> InvariantResult:
    """Check that `score` gives the same scores as `search`."""
    rescored = score(model, sources, [n_best[0].tokens for n_best in results], beam.length_penalty)
    differences = [abs(n_best[0].score - other.score) for n_best, other in zip(results, rescored, strict=True)]
    held = sum(difference <= TIE for difference in differences)
    invariant = "Score of a translation = score of the same target when given"
    return InvariantResult(invariant, len(differences), held, max(differences, default=None))


def _close_to_float32(
    precision: str,
    model: Transformer,
    sources: Sequence[Sequence[int]],
    float32_results: NBestLists,
    results: NBestLists,
    beam: Beam,
) -> InvariantResult:
    """Check that a reduced precision's log-probabilities of its own translations are close to float32's."""
    rescored = score(model, sources, [n_best[0].tokens for n_best in results], beam.length_penalty)
    differences = [
        abs(n_best[0].log_probability - other.log_probability) / len(other.tokens)
        for n_best, other in zip(results, rescored, strict=True)
    ]
    same = sum(a[0].tokens == b[0].tokens for a, b in zip(float32_results, results, strict=True))
    tolerance = MAX_DIFFERENCE_FROM_FLOAT32[precision]
    held = sum(difference <= tolerance for difference in differences)
    return InvariantResult(
        f"Log-probability per token in {precision} is within {tolerance} of float32",
        len(differences),
        held,
        max(differences, default=None),
        f"{same} of {len(differences)} translations identical",
    )


def _every(invariant: str, cases: Iterable[Case], holds: Callable[[Case], bool]) -> InvariantResult:
    held = [holds(case) for case in cases]
    return InvariantResult(invariant, len(held), sum(held))


def _sorted_and_distinct(n_best: list[Hypothesis]) -> bool:
    scores = [hypothesis.score for hypothesis in n_best]
    return scores == sorted(scores, reverse=True) and len({tuple(h.tokens) for h in n_best}) == len(n_best)
