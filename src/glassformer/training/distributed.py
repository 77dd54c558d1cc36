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
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

from glassformer.engine.devices import chosen_device
from glassformer.errors import GlassformerError, SettingsError
from glassformer.training.run_resources import threads_for
from glassformer.training.stop_signals import POLL_SECONDS, delayed_signals, interruptible

CPU = torch.device("cpu")
COLLECTIVE_TIMEOUT = timedelta(minutes=30)  # long enough for one rank to build the token store while the others wait
CONNECT_TIMEOUT = timedelta(minutes=1)  # of local ranks, which connect when all of them have started
DEAD_HELPER = (
    "A helper process of this run ended unexpectedly (the system may have run out of memory). All saved checkpoints "
    "are intact: run the same command to resume from the newest one."
)


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
def torchrun_group(device_name: str = "auto") -> Iterator[ProcessGroup]:
    """The process group that torchrun set up, each rank on a GPU of its own if the device is `cuda`."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if (chosen := chosen_device(device_name)) not in ("cpu", "cuda"):
        raise SettingsError(f"Under torchrun each process takes a GPU of its own: use the device cuda, not {chosen}.")
    device = CPU
    if chosen == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # Flags and counts are CPU tensors even where gradients are on GPUs, so both backends are needed.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=COLLECTIVE_TIMEOUT)
    try:
        yield ProcessGroup(rank, size, device)
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def local_group(size: int, run_directory: Path, device: str = "cpu") -> Iterator[ProcessGroup]:
    """Start `size` - 1 helper processes on this machine; the group of them and this one, each with its share of cores.

    Several processes compute on the CPU, a single one on the device. The helpers are fresh interpreters that open the
    run by its directory; they end with the block or this process.
    """
    torch.set_num_threads(threads_for(size))
    if size == 1:
        yield ProcessGroup(device=torch.device(device))
        return
    with (
        tempfile.TemporaryDirectory(prefix="glassformer-") as rendezvous,
        _helpers(size, run_directory, rendezvous) as helpers,
    ):
        while not all(_ready_file(rendezvous, rank).exists() for rank in range(1, size)):
            _check_alive(helpers)
            time.sleep(POLL_SECONDS)
        with _naming_dead(helpers):
            # Connecting notices neither dead helpers nor Ctrl-C, and its time limit is the only one it has.
            interruptible(lambda: _init_local_group(rendezvous, 0, size), lambda: _check_alive(helpers))
            try:
                yield ProcessGroup(0, size)
            finally:
                dist.destroy_process_group()


def join_local_group(rendezvous: str, rank: int, size: int, parent: int | None = None) -> ProcessGroup:
    """Join the group as a helper process of `parent`: set threads and signals, then connect to the other ranks."""
    torch.set_num_threads(threads_for(size))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # rank 0 receives them and tells all ranks
    _end_with_parent()
    if sys.platform == "linux" and parent is not None and os.getppid() != parent:
        sys.exit(1)  # it ended before this process could ask to be ended with it
    _ready_file(rendezvous, rank).touch()
    _init_local_group(rendezvous, rank, size)
    return ProcessGroup(rank, size)


@contextlib.contextmanager
def _helpers(size: int, run_directory: Path, rendezvous: str) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """The helper processes, killed at the end of the block: they write no files, so nothing is lost.

    They have a session of their own, or Ctrl-C in a terminal would end them while they start.
    """
    helpers: list[subprocess.Popen[bytes]] = []
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    try:
        for rank in range(1, size):
            arguments = [str(run_directory), rendezvous, str(rank), str(size), str(os.getpid())]
            command = [sys.executable, "-m", "glassformer.training.rank_process", *arguments]
            with delayed_signals():  # Ctrl-C between fork and append would leave a helper that nobody ends
                helpers.append(subprocess.Popen(command, stdin=pipe, stdout=null, start_new_session=True))
        yield helpers
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()
            if helper.stdin:
                helper.stdin.close()


@contextlib.contextmanager
def _naming_dead(helpers: list["subprocess.Popen[bytes]"]) -> Iterator[None]:
    """Turn gloo's error about a rank that is gone into a sentence about the helper process that ended."""
    try:
        yield
    except RuntimeError as error:
        for _ in range(round(5 / POLL_SECONDS)):  # the process may end a little later than its connection
            if any(helper.poll() for helper in helpers):
                raise GlassformerError(DEAD_HELPER) from error
            time.sleep(POLL_SECONDS)
        raise


def _check_alive(helpers: Iterable["subprocess.Popen[bytes]"]) -> None:
    """Raise an error if a helper process has ended."""
    if any(helper.poll() is not None for helper in helpers):
        raise GlassformerError(DEAD_HELPER)


def _ready_file(rendezvous: str, rank: int) -> Path:
    """File that a helper creates when it has started and is about to connect."""
    return Path(rendezvous) / f"ready-{rank}"


def _init_local_group(rendezvous: str, rank: int, size: int) -> None:
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine: no host name is needed
    store = dist.FileStore(f"{rendezvous}/ranks", size)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=CONNECT_TIMEOUT)
    dist.distributed_c10d._set_pg_timeout(COLLECTIVE_TIMEOUT)


def _end_with_parent() -> None:
    """Have this helper end when its parent does, even if the parent is killed.

    On Linux the kernel kills it; elsewhere it ends with its standard input, a pipe from its parent.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    else:
        threading.Thread(target=_exit_after_stdin, daemon=True).start()


def _exit_after_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
