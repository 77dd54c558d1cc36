"""Progress of long work: one line on stderr, shown only on a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")
ITEMS_PER_REPORT = 500


class ProgressCounter:
    """Progress line on a terminal with the number of items done and the rate; it is erased at the end.

    With `beside_output`, shown only if stdout is not a terminal: there the output itself shows the progress.
    With `total`, the number of items expected is shown instead of the rate.
    """

    def __init__(self, label: str, beside_output: bool = False, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._progress: Progress | None = None
        self._is_shown = sys.stderr.isatty() and not (beside_output and sys.stdout.isatty())

    def __enter__(self) -> "ProgressCounter":
        self._began = time.monotonic()
        if self._is_shown:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self.label, total=None)
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def add(self, count: int) -> None:
        """Count further items as done."""
        self.done += count
        if self._progress is not None:
            rate = self.done / max(time.monotonic() - self._began, 1e-3)
            suffix = f" of {self.total:,}" if self.total else f", {rate:,.0f} per second"
            self._progress.update(self._task, description=f"{self.label} {self.done:,}{suffix},")

    def say(self, sentence: str) -> None:
        """Print a sentence that stays, above the progress line."""
        if self._progress is None:
            typer.echo(sentence, err=True)
        else:
            self._progress.console.print(sentence, markup=False, highlight=False)


def with_progress(items: Iterable[Item], label: str) -> Iterator[Item]:
    """Yield the items, with a progress counter while they are consumed."""
    with ProgressCounter(label) as counter:
        for number, item in enumerate(items, start=1):
            yield item
            if number % ITEMS_PER_REPORT == 0:
                counter.add(ITEMS_PER_REPORT)
