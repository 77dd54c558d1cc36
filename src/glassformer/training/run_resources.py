"""Hardware resources of a run: number of ranks, threads per rank, memory allocation."""

import contextlib
import ctypes
import os
from typing import Any

import torch

from glassformer.errors import SettingsError
from glassformer.hardware import cores, total_memory
from glassformer.model import ModelConfig

MAX_RANKS = 8
BYTES_PER_PARAMETER = 20  # in float32: the weight, its gradient, Adam's two moments, the moving average


def choose_ranks(parameters: int, device: str = "cpu") -> int:
    """Number of processes (ranks) for a run: one on a GPU; on a CPU one per core, as far as memory allows.

    Single-threaded processes wait for each other once per update, threads at every product; on two cores that is about
    as fast as threads, and sometimes faster (docs/results.md). But each process has its own copy of the model.
    """
    if device != "cpu":
        return 1
    return max(1, min(MAX_RANKS, cores(), total_memory() // 2 // (BYTES_PER_PARAMETER * parameters)))


def check_memory(config: ModelConfig) -> None:
    """Refuse a model whose training needs more memory than this machine has, before anything of its size is built."""
    attention, feed_forward = 4 * config.n_heads * config.d_head, 2 * config.d_ff
    rows = config.encoder_layers * (attention + feed_forward) + config.decoder_layers * feed_forward + config.vocab_size
    needed = BYTES_PER_PARAMETER * config.d_model * rows
    if needed > total_memory():
        raise SettingsError(
            f"A model of these sizes needs at least {needed / 1e9:,.0f} GB of memory to train, and this machine has "
            f"{total_memory() / 1e9:,.0f} GB: choose smaller values in [model] (d_model, d_ff, layers) or for "
            "tokenizer.vocab_size."
        )


def threads_for(ranks: int) -> int:
    """Threads per rank for this number of ranks on this machine; OMP_NUM_THREADS overrides it."""
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    return max(1, cores() // ranks)


def numerical_environment(ranks: int, device: torch.device, matmul_dtype: torch.dtype | None) -> dict[str, Any]:
    """Everything besides the settings that can change the last bits of a run."""
    return {
        "torch": torch.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "device": device.type,
        "products": str(matmul_dtype or torch.float32).removeprefix("torch."),
        "ranks": ranks,
        "threads": torch.get_num_threads(),
    }


def keep_memory() -> None:
    """Have the C library keep freed memory for the next step instead of returning it to the system.

    Every step allocates and frees the same large blocks; mapping them anew made a training step a quarter slower.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")  # glibc; elsewhere this does nothing
        libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD: no block gets a mapping of its own
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap does not shrink
