"""Metrics of the server's process, under the names that Prometheus's clients in all languages use."""

import os
import sys
import time
from pathlib import Path

from glassformer.server.metrics import MetricGauge, Metrics

PROC = Path("/proc/self")


def add_process_metrics(metrics: Metrics) -> None:
    """Processor time and start everywhere; memory and open files where the system has /proc."""
    started = time.time()
    measured = [
        ("process_cpu_seconds_total", "Processor time of this process, in seconds.", time.process_time, "counter"),
        ("process_start_time_seconds", "When this server started, in seconds since 1970.", lambda: started, "gauge"),
    ]
    if sys.platform == "linux":
        measured += [
            ("process_resident_memory_bytes", "Memory of this process, in bytes.", resident_memory, "gauge"),
            ("process_open_fds", "Open files and connections.", lambda: len(os.listdir(PROC / "fd")), "gauge"),
            ("process_max_fds", "How many files and connections may be open.", max_open_files, "gauge"),
        ]
    metrics.gauges += [MetricGauge(name, meaning, read, kind) for name, meaning, read, kind in measured]


def resident_memory() -> int:
    pages = int((PROC / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def max_open_files() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
