"""Process groups for data-parallel training: rank, world size, and reductions over all ranks.

One process, helper processes on this machine, or torchrun: the training loop sees only a `ProcessGroup`. Every decision
is made from values that all ranks share, because a rank that leaves alone leaves the others waiting.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

from glassformer.errors import GlassformerError
from glassformer.training.run_resources import threads_for

CPU = torch.device("cpu")
COLLECTIVE_TIMEOUT = timedelta(minutes=30)  # long enough for one rank to build the token store while the others wait


@dataclass(frozen=True)
class ProcessGroup:
    """The processes (ranks) of a training run, as seen from one of them."""

    rank: int = 0
    size: int = 1
    """World size: the number of ranks (processes)."""
    device: torch.device = CPU

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the only one that writes files and reports progress."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all ranks; every rank gets the result."""
        if self.size > 1:
            dist.all_reduce(values, op=dist.ReduceOp.SUM)
        return values

    def max(self, value: int) -> int:
        """Maximum over all ranks; every rank gets the result."""
        if self.size == 1:
            return value
        values = torch.tensor([value])
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return int(values)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank; every rank gets the result."""
        return bool(self.max(int(flag)))


def under_torchrun() -> bool:
    """Whether torchrun (or a launcher that sets the same variables) started this process as one of several."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextlib.contextmanager
def torchrun_group() -> Iterator[ProcessGroup]:
    """The process group that torchrun set up, on GPUs if there are any."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = CPU
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # Flags and counts are CPU tensors even where gradients are on GPUs, so both backends are needed.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=COLLECTIVE_TIMEOUT)
    try:
        yield ProcessGroup(rank, size, device)
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def local_group(size: int, run_directory: Path) -> Iterator[ProcessGroup]:
    """Start `size` - 1 helper processes on this machine; the group of them and this one, each with its share of cores.

    The helpers are fresh interpreters that open the run by its directory; they end with the block or this process.
    """
    device = torch.device("cuda") if size == 1 and torch.cuda.is_available() else CPU
    torch.set_num_threads(threads_for(size))
    if size == 1:
        yield ProcessGroup(device=device)
        return
    with tempfile.TemporaryDirectory(prefix="glassformer-") as rendezvous:
        helpers = [_start_helper(run_directory, rendezvous, rank, size) for rank in range(1, size)]
        try:
            _init_local_group(rendezvous, 0, size)
            try:
                yield ProcessGroup(0, size)
            except RuntimeError as error:  # gloo raises this when another rank is gone
                if any(helper.wait(5) for helper in helpers):
                    raise GlassformerError(
                        "A helper process of this run ended unexpectedly (the system may have run out of memory). All "
                        "saved checkpoints are intact: run the same command to resume from the newest one."
                    ) from error
                raise
            finally:
                dist.destroy_process_group()
        finally:
            for helper in helpers:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    helper.wait(5)
                helper.kill()
                helper.wait()


def join_local_group(rendezvous: str, rank: int, size: int) -> ProcessGroup:
    """Join the group as a helper process: set threads and signals, then connect to the other ranks."""
    torch.set_num_threads(threads_for(size))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # rank 0 receives them and tells all ranks
    _end_with_parent()
    _init_local_group(rendezvous, rank, size)
    return ProcessGroup(rank, size)


def _start_helper(run_directory: Path, rendezvous: str, rank: int, size: int) -> "subprocess.Popen[bytes]":
    arguments = [str(run_directory), rendezvous, str(rank), str(size)]
    command = [sys.executable, "-m", "glassformer.training.rank_process", *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _init_local_group(rendezvous: str, rank: int, size: int) -> None:
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine: no host name is needed
    store = dist.FileStore(f"{rendezvous}/ranks", size)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=COLLECTIVE_TIMEOUT)


def _end_with_parent() -> None:
    """Have the kernel kill this helper when its parent dies, even if the parent is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
