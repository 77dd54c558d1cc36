"""Everybody does the same task in turn, several times; each one's best round counts.

Machines are shared: a slow minute must hurt all alike, and only figures of one such run may be compared.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from glassformer.benchmark.systems import BenchmarkTask, System


@dataclass(frozen=True)
class ThroughputResult:
    """What one contestant did."""

    name: str
    tokens_per_second: float
    median: float | None
    """Seconds for a sentence alone; None if nobody asked."""
    slow: float | None
    """The same for the slowest in twenty."""
    memory: int
    """The most bytes that it had."""


def compare_throughput(
    contestants: Sequence[System],
    task: BenchmarkTask,
    rounds: int,
    alone: BenchmarkTask | None = None,
    turn_taken: Callable[[], None] = lambda: None,
) -> list[ThroughputResult]:
    """Tokens a second of each, in the best of `rounds`; of `alone`, the time for each sentence by itself."""
    best = dict.fromkeys(contestants, 0.0)
    waits: dict[System, list[float]] = {one: [] for one in contestants}
    for one in contestants:
        one.run(BenchmarkTask(task.sources[: task.sentences], task.beam, task.sentences))  # warm up
    for _ in range(rounds):
        for one in contestants:
            done = one.run(task)
            best[one] = max(best[one], done.tokens / done.seconds)
            if alone is not None:
                waits[one] = _least(waits[one], one.one_by_one(alone))
            turn_taken()
    return [ThroughputResult(one.name, best[one], *_percentiles(waits[one]), one.peak()) for one in contestants]


def _least(before: list[float], now: list[float]) -> list[float]:
    return [min(pair) for pair in zip(before, now, strict=True)] if before else now


def _percentiles(waits: list[float]) -> tuple[float | None, float | None]:
    if not waits:
        return None, None
    ordered = sorted(waits)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 19 // 20)]


def machine() -> str:
    """What the figures were measured on, with its own limits beside it."""
    square, long = torch.rand(1024, 1024), torch.rand(2**24)
    gflops = 2 * 1024**3 / _best(lambda: square @ square) / 1e9
    gigabytes = 2 * long.numel() * 4 / _best(long.clone) / 1e9
    return (
        f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, Python {platform.python_version()}; "
        f"float32 product {gflops:.0f} GFLOP/s, copy {gigabytes:.1f} GB/s"
    )


def _best(call: Callable[[], object], rounds: int = 10) -> float:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
