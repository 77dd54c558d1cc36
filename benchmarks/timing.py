"""Fair timing on a machine that others use too: contestants take turns, each one's best round counts."""

import os
import platform
import time
from collections.abc import Callable, Mapping

import torch


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


def machine() -> str:
    """What the figures were measured on, with its own limits beside it."""
    square, long = torch.rand(1024, 1024), torch.rand(2**24)
    seconds = interleaved({"product": lambda: square @ square, "copy": long.clone}, rounds=10)
    gflops = 2 * 1024**3 / seconds["product"] / 1e9
    gigabytes = 2 * long.numel() * 4 / seconds["copy"] / 1e9
    return (
        f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, Python {platform.python_version()}; "
        f"float32 product {gflops:.0f} GFLOP/s, copy {gigabytes:.1f} GB/s"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
