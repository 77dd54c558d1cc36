"""Limits on batches and worker threads, and batches of items of similar cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def batches_by_cost(costs: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group items of similar cost into batches of indices, most expensive first, each padded batch within the budget.

    An item over the budget forms a batch by itself.
    """
    order = sorted(range(len(costs)), key=lambda i: -costs[i])
    while order:
        count = max(1, budget // max(1, costs[order[0]]))
        yield order[:count]
        order = order[count:]
