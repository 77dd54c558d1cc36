"""Progress of long work: one line on stderr, shown only on a terminal."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task

Item = TypeVar("Item")
ITEMS_PER_REPORT = 500
SECONDS_BEFORE_SHOWN = 1.0


class ProgressCounter:
    """Progress line on a terminal with the number of items done and the rate; it is erased at the end.

    It appears after `SECONDS_BEFORE_SHOWN`, so that short work neither flickers nor waits for the import of rich.
    With `beside_output`, shown only if stdout is not a terminal: there the output itself shows the progress.
    With `total`, the number of items expected and the time left are shown instead of the rate.
    """

    def __init__(
        self, label: str, beside_output: bool = False, total: int | None = None, is_shown: bool = True
    ) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._began, self._seconds = time.monotonic(), 0.0
        self._progress: Progress | None = None
        self._lock, self._has_ended = threading.Lock(), False
        self._is_shown = is_shown and sys.stderr.isatty() and not (beside_output and sys.stdout.isatty())

    def __enter__(self) -> "ProgressCounter":
        self._began = time.monotonic()
        if self._is_shown:
            timer = threading.Timer(SECONDS_BEFORE_SHOWN, self._show)
            timer.daemon = True
            timer.start()
        return self

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), _clock_column(self))
        with self._lock:
            if not self._has_ended:
                progress = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
                self._task = progress.add_task(self._description(), total=None)
                progress.start()
                self._progress = progress

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._has_ended = True
            if self._progress is not None:
                self._progress.stop()

    def add(self, count: int) -> None:
        """Count further items as done."""
        self.done += count
        self._seconds = time.monotonic() - self._began
        if self._progress is not None:
            self._progress.update(self._task, description=self._description())

    def clock(self) -> str:
        """The time since the beginning and, once it can be estimated, the time left."""
        passed = time.monotonic() - self._began
        shown = _hours_minutes_seconds(passed)
        if not (self.total and self.done):
            return shown
        left = max(0.0, self._seconds * self.total / self.done - passed)
        return f"{shown}, {_hours_minutes_seconds(left)} left"

    def _description(self) -> str:
        if self.total:
            return f"{self.label} {self.done:,} of {self.total:,},"
        if not self.done:
            return self.label
        return f"{self.label} {self.done:,}, {self.done / max(self._seconds, 1e-3):,.0f} per second,"

    def say(self, sentence: str) -> None:
        """Print a sentence that stays, above the progress line."""
        with self._lock:
            if self._progress is None:
                typer.echo(sentence, err=True)
            else:
                self._progress.console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _hours_minutes_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _clock_column(counter: ProgressCounter) -> "ProgressColumn":
    """The time passed and left; it counts down between two additions, as work is often done in large groups."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Clock(ProgressColumn):
        def render(self, _: "Task") -> Text:
            return Text(counter.clock())

    return Clock()


def with_progress(items: Iterable[Item], label: str) -> Iterator[Item]:
    """Yield the items, with a progress counter while they are consumed."""
    with ProgressCounter(label) as counter:
        for number, item in enumerate(items, start=1):
            yield item
            if number % ITEMS_PER_REPORT == 0:
                counter.add(ITEMS_PER_REPORT)
