"""Progress of long work: one line on stderr, shown only on a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task

Item = TypeVar("Item")
ITEMS_PER_REPORT = 500


class ProgressCounter:
    """Progress line on a terminal with the number of items done and the rate; it is erased at the end.

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
        self._is_shown = is_shown and sys.stderr.isatty() and not (beside_output and sys.stdout.isatty())

    def __enter__(self) -> "ProgressCounter":
        self._began = time.monotonic()
        if self._is_shown:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), _clock_column(self))
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._description(), total=None)
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
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
        if self._progress is None:
            typer.echo(sentence, err=True)
        else:
            self._progress.console.print(sentence, markup=False, highlight=False)


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
