"""Stop signals: on the first Ctrl-C or SIGTERM the run saves and exits, on the second it exits at once.

A run that waits outside Python, for a process that no longer answers for example, is ended after a few seconds.
"""

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")
POLL_SECONDS = 0.02
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS = 3.0
"""From a stop signal to the end of a run that does not answer."""


class StopRequested(Exception):  # noqa: N818 - control flow, not an error
    """Raised when all ranks have agreed to stop."""


class Interrupted(Exception):  # noqa: N818
    """Raised when the run was stopped by a signal, and has saved a checkpoint."""

    def __init__(self, received: int, update: int) -> None:
        super().__init__(f"stopped by {signal.Signals(received).name} at update {update}")
        self.received = received
        self.update = update


class StopSignals:
    """Context manager that records the first stop signal in `received`.

    With `grace`, the process ends that many seconds after a signal if the block has not: Python's own handlers do not
    run while the main thread computes or waits outside Python. A block under `saving` is completed first.
    """

    def __init__(self, grace: float | None = None) -> None:
        self.received = 0
        self.grace = grace
        self.saving = threading.Lock()

    def __enter__(self) -> "StopSignals":
        self._previous = {number: signal.getsignal(number) for number in SIGNALS}
        handled = [number for number, handler in self._previous.items() if handler is not signal.SIG_IGN]
        for number in handled:  # helper processes ignore the signals: rank 0 handles them
            signal.signal(number, self._receive)
        self._watch = _watched(self) if self.grace and handled else contextlib.nullcontext()
        self._watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.__exit__(None, None, None)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = number


@contextlib.contextmanager
def _watched(signals: StopSignals) -> Iterator[None]:
    """End the process if the block is still running `signals.grace` seconds after a stop signal."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    ended = threading.Event()

    def watch() -> None:
        with reader:
            while received := reader.recv(1):  # the signal's number, written outside Python; nothing at the end
                if received[0] in SIGNALS and not ended.wait(signals.grace):
                    with signals.saving:
                        if not ended.wait(1):
                            os._exit(128 + received[0])

    threading.Thread(target=watch, daemon=True).start()
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        ended.set()
        writer.close()


@contextlib.contextmanager
def delayed_signals() -> Iterator[None]:
    """Handle a stop signal that arrives inside the block at its end."""
    with StopSignals() as signals:
        yield
    if signals.received:
        signal.raise_signal(signals.received)


def interruptible(function: Callable[[], Result], check: Callable[[], None] = lambda: None) -> Result:
    """Call a function in a thread, so that Ctrl-C ends the wait even while it computes outside Python.

    Meanwhile `check` is called again and again; it may raise. The function then goes on until the process ends.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        while not future.done():
            check()
            wait([future], POLL_SECONDS)
    except BaseException as error:
        atexit.register(_exit_if_running, future, 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1)
        raise
    return future.result()


def _exit_if_running(future: "Future[Any]", code: int) -> None:
    """Exit without finalising Python: a thread that comes back from C++ after that would abort the process."""
    if not future.done():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
