"""Asked to stop, by Ctrl-C or by the system: the first time we save and leave, the second time we leave at once."""

import signal
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequested(Exception):  # noqa: N818 - a message, not a mishap
    """All ranks have agreed to stop."""


class Interrupted(Exception):  # noqa: N818
    """The run was asked to stop, and has saved what it had."""

    def __init__(self, received: int, update: int) -> None:
        super().__init__(f"stopped by {signal.Signals(received).name} at update {update}")
        self.received = received
        self.update = update


class StopSignals:
    """Hears the signals while the block lasts."""

    def __init__(self) -> None:
        self.received = 0

    def __enter__(self) -> "StopSignals":
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:  # a helper leaves listening to its chief
                signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = number
