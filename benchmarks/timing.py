"""Timing on a shared machine: functions are called in turn, and the best round of each counts."""

import time
from collections.abc import Callable, Mapping

from glassformer.benchmark.throughput import machine_description

__all__ = ["interleaved", "machine_description"]


def interleaved(functions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of the best of `rounds` calls of each, called in turn so that a slow minute affects all equally."""
    for call in functions.values():
        call()  # warm-up: allocations and caches are not measured
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, call in functions.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
