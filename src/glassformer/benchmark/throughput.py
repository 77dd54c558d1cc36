"""Throughput comparison: all systems run the same task in turn, several times, and the best round of each counts.

Machines are shared: a slow minute must affect all systems equally, and only results of one such run are comparable.
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
    """Measured throughput, latency and peak memory of one system."""

    name: str
    tokens_per_second: float
    median: float | None
    """Median latency in seconds per sentence; None if not measured."""
    p95: float | None
    """95th percentile of the latency in seconds per sentence."""
    memory: int
    """Peak memory in bytes."""


def compare_throughput(
    systems: Sequence[System],
    task: BenchmarkTask,
    rounds: int,
    latency_task: BenchmarkTask | None = None,
    on_turn: Callable[[], None] = lambda: None,
) -> list[ThroughputResult]:
    """Tokens per second of each system in the best of `rounds`, and its latency on the sentences of `latency_task`.

    `on_turn` is called after every turn of a system.
    """
    best = dict.fromkeys(systems, 0.0)
    latencies: dict[System, list[float]] = {system: [] for system in systems}
    for system in systems:
        system.run(BenchmarkTask(task.sources[: task.sentences], task.beam, task.sentences))  # warm up
    for _ in range(rounds):
        for system in systems:
            result = system.run(task)
            best[system] = max(best[system], result.tokens / result.seconds)
            if latency_task is not None:
                latencies[system] = _minima(latencies[system], system.latencies(latency_task))
            on_turn()
    return [
        ThroughputResult(system.name, best[system], *_percentiles(latencies[system]), system.peak_memory())
        for system in systems
    ]


def _minima(before: list[float], now: list[float]) -> list[float]:
    return [min(pair) for pair in zip(before, now, strict=True)] if before else now


def _percentiles(latencies: list[float]) -> tuple[float | None, float | None]:
    if not latencies:
        return None, None
    ordered = sorted(latencies)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 19 // 20)]


def machine_description() -> str:
    """The processor and software versions, with the measured peak of matrix products and memory copies."""
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
