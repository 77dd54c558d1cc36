"""What this process may use, and has used, of the machine."""

import os
import sys
import threading


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def step_back(by: int = 5) -> None:
    """Let other threads go before this one where cores are short: it works, and they answer. Only Linux has
    priorities of threads; elsewhere nothing happens. Not far back: it still holds Python's lock at times, and whoever
    waits for that waits for this thread to get a core."""
    if sys.platform == "linux":
        own = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, min(19, os.getpriority(os.PRIO_PROCESS, own) + by))


def peak_memory() -> int:
    """The most bytes that this process has had so far."""
    try:
        with open("/proc/self/status") as lines:  # unlike getrusage's, not what the process that started it had
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
