"""Fair timing on a machine that others use too: contestants take turns, each one's best round counts."""

import time
from collections.abc import Callable, Mapping

from glassformer.benchmark.throughput import machine

__all__ = ["interleaved", "machine"]


def interleaved(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of the best of `rounds` calls for each, called in turn so that a slow minute hurts all alike."""
    for call in contestants.values():
        call()  # warm up: allocations and caches are not what we measure
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
