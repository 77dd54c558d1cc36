"""Log-probabilities and cross-attention weights of given targets: the same numbers that a search finds."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from glassformer.decoding.batch_limits import BatchLimits, batches_by_cost
from glassformer.decoding.hypothesis import Attention, Head, Hypothesis, penalised
from glassformer.decoding.step_model import Ensemble, StepModel
from glassformer.decoding.vocabulary_shortlist import MaskedStepModel
from glassformer.decoding.work_queue import WorkQueue, run_workers
from glassformer.errors import InputError

Ids = Sequence[Sequence[int]]
Result = TypeVar("Result")
MAX_BATCH_POSITIONS = 4_000
"""Maximum of source and target positions per batch: PyTorch has logits as wide as the vocabulary for each."""
MIN_BATCH_POSITIONS = 500
"""Batches of several workers are not made smaller than this to share the work evenly."""


@runtime_checkable
class ScoresTargets(Protocol):
    """A step model that computes the log-probabilities of given targets, all positions at once."""

    def log_probabilities(self, sources: Ids, targets: Ids) -> list[list[float]]:
        """The log-probability of each token of a batch of targets."""


@runtime_checkable
class GivesAttention(Protocol):
    """A step model that gives its cross-attention weights for given targets."""

    def attention(self, sources: Ids, targets: Ids, heads: Sequence[Head]) -> list[Attention]:
        """The weights of these heads for a batch of targets."""


def score_targets(
    step_model: StepModel, sources: Ids, targets: Ids, length_penalty: float, limits: BatchLimits
) -> list[Hypothesis]:
    """Score targets as hypotheses for their sources. Both end with the end of sentence; targets have no start token."""
    step_model = _without_shortlist(step_model)
    if not isinstance(step_model, ScoresTargets):
        raise InputError("An ensemble cannot score translations: score with each model separately.")
    _check_pairs(step_model, sources, targets)
    return [
        Hypothesis(list(target), log_ps, penalised(sum(log_ps), len(log_ps), length_penalty))
        for target, log_ps in zip(
            targets, _in_batches(step_model.log_probabilities, sources, targets, limits), strict=True
        )
    ]


def attention_of_targets(
    step_model: StepModel, sources: Ids, targets: Ids, heads: Sequence[Head], limits: BatchLimits
) -> list[Attention]:
    """The weights of these cross-attention heads for given targets; of an ensemble, those of its first model."""
    if isinstance(step_model, Ensemble):
        step_model = step_model.step_models[0]
    step_model = _without_shortlist(step_model)
    if not isinstance(step_model, GivesAttention):
        raise InputError("This engine does not give attention weights: use the engine `fast` or `plain`.")
    _check_pairs(step_model, sources, targets)
    return _in_batches(partial(step_model.attention, heads=heads), sources, targets, limits)


def _without_shortlist(step_model: StepModel) -> StepModel:
    """The model that scores: given targets may have any token."""
    return step_model.step_model if isinstance(step_model, MaskedStepModel) else step_model


def _check_pairs(step_model: StepModel, sources: Ids, targets: Ids) -> None:
    if len(sources) != len(targets):
        raise InputError(
            f"There are {len(targets)} targets for {len(sources)} sources. Expected one target per source."
        )
    for side, sentences in (("source", sources), ("target", targets)):
        shortest, longest = min(map(len, sentences), default=1), max(map(len, sentences), default=1)
        if not shortest:
            raise InputError(f"A {side} is empty: it must have at least the end-of-sentence token.")
        if step_model.max_tokens is not None and longest > step_model.max_tokens:
            raise InputError(
                f"A {side} has {longest} tokens, but this model has only {step_model.max_tokens} positions."
            )
    if any(step_model.pad in source for source in sources):
        raise InputError(f"A source must not contain the padding token ({step_model.pad}).")


def _in_batches(
    compute: Callable[[Ids, Ids], list[Result]], sources: Ids, targets: Ids, limits: BatchLimits
) -> list[Result]:
    """The result of every pair, computed in batches of similar cost by the worker threads, in order."""
    costs = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    budget = min(MAX_BATCH_POSITIONS, limits.positions)
    if limits.workers > 1:
        budget = min(budget, max(MIN_BATCH_POSITIONS, sum(costs) // (4 * limits.workers)))
    size = limits.sentences or max(1, len(costs))
    batches = [batch[i : i + size] for batch in batches_by_cost(costs, budget) for i in range(0, len(batch), size)]
    queue = WorkQueue(batches, min(limits.workers, len(batches)))

    def work(worker: int) -> Iterator[tuple[int, Result]]:
        while not queue.stopped and (batch := queue.take(worker, lambda _: True, steal=True)):
            yield from zip(batch, compute([sources[i] for i in batch], [targets[i] for i in batch]), strict=True)

    results = dict(run_workers([work(worker) for worker in range(queue.workers)], queue.stop))
    return [results[i] for i in range(len(costs))]
