"""Small training runs for tests: a few `street` sentences, a two-layer model, dropout and gradient accumulation."""

import contextlib
import hashlib
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

from glassformer.builtin import street
from glassformer.training import Interrupted, ProgressListener, train_run
from glassformer.training.progress_listener import Progress
from tests.processes import forking


def write_corpus(directory: Path, pairs: int = 300, split: street.Split = "train") -> dict[str, str]:
    """Write two files of `street` sentences; returns the entries of a run's data section."""
    directory.mkdir(parents=True, exist_ok=True)
    sentences = list(street.sentences(split, pairs))
    for side in ("source", "target"):
        text = "".join(f"{getattr(sentence, side)}\n" for sentence in sentences)
        (directory / f"{split}.{side}").write_text(text, encoding="utf-8")
    prefix = {"train": "", "dev": "dev_", "test": "test_"}[split]
    return {f"{prefix}{side}": str(directory / f"{split}.{side}") for side in ("source", "target")}


def options(tmp_path: Path, out: str = "run", **training: Any) -> dict[str, Any]:
    """A run of seconds, with all that could go wrong on resuming: dropout, three micro-batches, several epochs."""
    defaults = {
        "updates": 24,
        "batch_tokens": 768,
        "micro_batches": 3,
        "ranks": 1,
        "log_every": 5,
        "warmup": 4,
        "keep": 2,
    }
    return {
        "out": str(tmp_path / out),
        "data": write_corpus(tmp_path / "text") | write_corpus(tmp_path / "text", 10, "dev"),
        "tokenizer": {"vocab_size": 400},
        "model": {
            "preset": "tiny",
            "d_model": 16,
            "n_heads": 2,
            "d_ff": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "dropout": 0.2,
            "attention_dropout": 0.1,
        },
        "training": defaults | training,
        "validation": {"every": 6, "beam": 1, "final_beam": 2},
    }


def fingerprint(run: Path) -> dict[str, str]:
    """sha256 of the weights, optimiser state and metrics of a finished run."""
    last = max(run.glob("step-*"), key=lambda path: int(path.name.split("-")[1]))
    best = max(run.glob("best-*"), key=lambda path: int(path.name.split("-")[1]))
    files = {
        "last": last.name,
        "best": best.name,
        "weights": last / "model.safetensors",
        "optimiser": last / "optimizer.safetensors",
        "average": last / "average.safetensors",
        "best weights": best / "model.safetensors",
        "metrics": run / "metrics.jsonl",
        "saved metrics": last / "metrics.jsonl",
    }
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest() if isinstance(path, Path) else path
        for name, path in files.items()
        if isinstance(path, str) or path.exists()
    }


class Listener(ProgressListener):
    """Collects the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


class Signalled(ProgressListener):
    """Sends its own process a signal as soon as an update is completed."""

    def __init__(self, update: int, number: int) -> None:
        self.update, self.number = update, number

    def updated(self, progress: Progress) -> None:
        if progress.update == self.update:
            os.kill(os.getpid(), self.number)


def train_silently(run_options: dict[str, Any], listener: ProgressListener | None = None) -> None:
    """Train in this process, which ends with the command's exit code if interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have told its children to ignore it
    try:
        train_run(run_options, listener or ProgressListener())
    except Interrupted as stopped:
        raise SystemExit(128 + stopped.received) from None


def started(run_options: dict[str, Any]) -> tuple[multiprocessing.process.BaseProcess, Any]:
    """A training process, and the connection that receives what `train_run` returns or raises, and the messages."""
    context = forking()
    receiver, sender = context.Pipe()
    process = context.Process(target=_train_and_send, args=(run_options, sender))
    process.start()
    sender.close()
    return process, receiver


def trained(run_options: dict[str, Any], listener: Listener | None = None) -> dict[str, Any]:
    """What `train_run` returns or raises, run in a subprocess: without checked annotations it is ten times as fast."""
    process, receiver = started(run_options)
    outcome, messages = receiver.recv()
    process.join()
    if listener is not None:
        listener.messages += messages
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _train_and_send(run_options: dict[str, Any], connection: Any) -> None:
    listener = Listener()
    try:
        connection.send((train_run(run_options, listener), listener.messages))
    except Exception as error:  # any error is passed on to the test
        connection.send((error, listener.messages))


def in_own_process(
    run_options: dict[str, Any], listener: ProgressListener | None = None
) -> multiprocessing.process.BaseProcess:
    """A training process that can be killed. The server that forks it has already imported everything."""
    process = forking().Process(target=train_silently, args=(run_options, listener))
    process.start()
    return process


def killed_at(run_options: dict[str, Any], update: int) -> None:
    """Start training and kill the process as soon as an update is completed."""
    process = in_own_process(run_options, Signalled(update, signal.SIGKILL))
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def helper_processes(process: multiprocessing.process.BaseProcess) -> list[int]:
    """Process ids of a training process's helpers; empty where there is no /proc."""
    helpers = []
    for task in Path(f"/proc/{process.pid}/task").glob("*/children"):  # of all threads
        with contextlib.suppress(OSError):  # the thread or the child has ended meanwhile
            children = [int(child) for child in task.read_text().split()]
            helpers += [child for child in children if "rank_process" in Path(f"/proc/{child}/cmdline").read_text()]
    return helpers
