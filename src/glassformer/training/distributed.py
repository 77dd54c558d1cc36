"""Several processes that train one model: who am I, what is my share, what do we all know.

Alone, with helpers on this machine, or under torchrun: the loop sees only a `ProcessGroup`. Everything that is decided is
decided from values that all ranks share, because a rank that leaves alone leaves the others waiting.
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
PATIENCE = timedelta(minutes=30)  # for a rank that builds the store while the others wait


@dataclass(frozen=True)
class ProcessGroup:
    """The ranks of a run, seen from one of them."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def is_chief(self) -> bool:
        """The one rank that writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over ranks, known to all."""
        if self.size > 1:
            dist.all_reduce(values, op=dist.ReduceOp.SUM)
        return values

    def most(self, value: int) -> int:
        """The largest over ranks, known to all."""
        if self.size == 1:
            return value
        values = torch.tensor([value])
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return int(values)

    def any(self, flag: bool) -> bool:
        """Whether it is true for any rank, known to all."""
        return bool(self.most(int(flag)))


def under_torchrun() -> bool:
    """Whether torchrun (or anything that speaks as it does) started this process as one of several."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextlib.contextmanager
def torchrun_world() -> Iterator[ProcessGroup]:
    """The world that torchrun made, GPUs where there are any."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = CPU
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # Flags and counts travel between CPUs even where gradients travel between GPUs.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield ProcessGroup(rank, size, device)
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def local_world(size: int, run: Path) -> Iterator[ProcessGroup]:
    """This process and `size` - 1 helpers on this machine, each with its share of the cores.

    The helpers are fresh interpreters that open the run by its directory; they end with the block, or with us.
    """
    device = torch.device("cuda") if size == 1 and torch.cuda.is_available() else CPU
    torch.set_num_threads(threads_for(size))
    if size == 1:
        yield ProcessGroup(device=device)
        return
    with tempfile.TemporaryDirectory(prefix="glassformer-") as meeting:
        helpers = [_start_helper(run, meeting, rank, size) for rank in range(1, size)]
        try:
            _meet(meeting, 0, size)
            try:
                yield ProcessGroup(0, size)
            except RuntimeError as error:  # how gloo says that a peer is gone
                if any(helper.wait(5) for helper in helpers):
                    raise GlassformerError(
                        "A helper process of this run ended before its work was done (the system may have been out of "
                        "memory). Nothing saved is lost: the same command goes on from the newest checkpoint."
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


def help_as_rank(meeting: str, rank: int, size: int) -> ProcessGroup:
    """What a helper does first: meet the others."""
    torch.set_num_threads(threads_for(size))
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # the chief hears them, and tells everybody
    _end_with_parent()
    _meet(meeting, rank, size)
    return ProcessGroup(rank, size)


def _start_helper(run: Path, meeting: str, rank: int, size: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "glassformer.training.helper_process", str(run), meeting, str(rank), str(size)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _meet(meeting: str, rank: int, size: int) -> None:
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all on this machine: no name of it need be known
    store = dist.FileStore(f"{meeting}/ranks", size)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)


def _end_with_parent() -> None:
    """Even if the chief is killed, no helper stays."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
