"""Stop signals: on the first Ctrl-C or SIGTERM the run saves and exits, on the second it exits at once."""

import signal
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequested(Exception):  # noqa: N818 - control flow, not an error
    """Raised when all ranks have agreed to stop."""


class Interrupted(Exception):  # noqa: N818
    """Raised when the run was stopped by a signal, and has saved a checkpoint."""

    def __init__(self, received: int, update: int) -> None:
        super().__init__(f"stopped by {signal.Signals(received).name} at update {update}")
        self.received = received
        self.update = update


class StopSignals:
    """Context manager that records the first stop signal in `received`."""

    def __init__(self) -> None:
        self.received = 0

    def __enter__(self) -> "StopSignals":
        self._previous = {number: signal.getsignal(number) for number in SIGNALS}
        for number, handler in self._previous.items():
            if handler is not signal.SIG_IGN:  # helper processes ignore the signals: rank 0 handles them
                signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = number
