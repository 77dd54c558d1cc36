"""CPU cores, thread priority and memory of this process and machine."""

import ctypes
import os
import sys
import threading


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lower_thread_priority(by: int = 5) -> None:
    """Lower this thread's priority so that request threads run first when cores are scarce.

    Only Linux has priorities per thread; elsewhere nothing happens. Only slightly: this thread holds Python's GIL at
    times, and a thread that waits for the GIL waits until this one gets a core.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + by))


def peak_memory() -> int:
    """Peak memory of this process so far, in bytes."""
    try:
        with open("/proc/self/status") as lines:  # unlike getrusage, it does not include the parent process's peak
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    if sys.platform == "win32":
        counters = (ctypes.c_size_t * 9)()  # PROCESS_MEMORY_COUNTERS: two 32-bit numbers, then sizes, the peak first
        kernel = ctypes.windll.kernel32
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        kernel.K32GetProcessMemoryInfo.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
        kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), counters, ctypes.sizeof(counters))
        return counters[1]
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def total_memory() -> int:
    """Memory of this machine, in bytes."""
    if sys.platform == "win32":
        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its size and the load in 32 bits each, then the total
        ctypes.windll.kernel32.GlobalMemoryStatusEx(status)
        return status[1]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
