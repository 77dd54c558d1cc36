"""Throughput comparison: all systems run the same task in turn, several times, and the best round of each counts.

Machines are shared: a slow minute must affect all systems equally, and only results of one such run are comparable.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from glassformer.benchmark.systems import BenchmarkTask, Sources, System
from glassformer.decoding import Beam
from glassformer.engine.native_library import loaded
from glassformer.extras import is_installed
from glassformer.hardware import cores

SECONDS_PER_TURN = 0.3
"""Approximate duration of a turn of the first system: shorter ones measure noise."""
MIN_SENTENCES_PER_WORKER = 4


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


def sized_task(system: System, sources: Sources, beam: Beam, batch_size: int) -> BenchmarkTask:
    """A task with as many of the sources as the system translates in SECONDS_PER_TURN, at least a few per worker."""
    fewest = cores() * max(batch_size, MIN_SENTENCES_PER_WORKER)
    task = BenchmarkTask(sources[:fewest], beam, batch_size)
    system.run(task)  # warm up
    count = int(len(task.sources) * SECONDS_PER_TURN / system.run(task).seconds)
    return BenchmarkTask(sources[: max(fewest, count)], beam, batch_size)


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
    """The processor, software versions and C library, with the measured peak of matrix products and memory copies."""
    long = np.random.default_rng(0).random(2**24, np.float32)
    gigabytes = 2 * long.nbytes / _best(long.copy) / 1e9
    versions = [f"{name} {version(name)}" for name in ("numpy", "torch") if is_installed(name)]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {', '.join(versions)}, Python {platform.python_version()}, "
        f"{_c_library()}; "
        f"float32 product {product_gflops():.0f} GFLOP/s, copy {gigabytes:.1f} GB/s"
    )


def product_gflops() -> float:
    """Speed of a large float32 matrix product on all cores: no system computes faster in float32."""
    square = np.random.default_rng(0).random((1024, 1024), np.float32)
    return 2 * 1024**3 / _best(lambda: square @ square) / 1e9


def _c_library() -> str:
    native = loaded()
    return "no C engine" if native is None else f"C engine for {native.instruction_set} (digest {native.digest})"


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
