"""What this machine has, and how a run uses it: cores and memory."""

import contextlib
import ctypes
import os
from typing import Any

import torch

from glassformer.hardware import cores

MOST_RANKS = 8
BYTES_A_PARAMETER = 20  # in float32: the weight, its gradient, Adam's two memories, the moving average


def choose_ranks(parameters: int) -> int:
    """One process with all of a GPU; on a CPU a process for each core, as far as memory allows.

    Processes of one thread each wait for each other once an update instead of at every product; on two cores that is
    about as fast as threads, and sometimes faster (docs/results.md). But each has its own copy of the model.
    """
    if torch.cuda.is_available():
        return 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(MOST_RANKS, cores(), memory // 2 // (BYTES_A_PARAMETER * parameters)))


def threads_for(ranks: int) -> int:
    """Threads of each of so many ranks on this machine; OMP_NUM_THREADS is obeyed where it is set."""
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    return max(1, cores() // ranks)


def what_bits_depend_on(ranks: int, device: torch.device, products: torch.dtype | None) -> dict[str, Any]:
    """Everything besides the settings that can change the last bits of a run."""
    return {
        "torch": torch.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "device": device.type,
        "products": str(products or torch.float32).removeprefix("torch."),
        "ranks": ranks,
        "threads": torch.get_num_threads(),
    }


def keep_memory() -> None:
    """Ask the C library to keep freed memory for the next step instead of returning it to the system.

    Every step takes and frees the same large blocks; fetching them anew made a training step a quarter slower.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")  # glibc; elsewhere nothing happens
        libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD: no block is given a mapping of its own
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap does not shrink
