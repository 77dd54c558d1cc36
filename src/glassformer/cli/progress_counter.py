"""How far long work is: on stderr, and only where a person looks at it."""

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")


class Counter:
    """A line that counts what is done, and how fast; it leaves no trace.

    With `beside_output`, only where the output goes elsewhere: on one screen, the output itself shows how far it is.
    With `total`, how many there will be.
    """

    def __init__(self, what: str, beside_output: bool = False, total: int | None = None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._progress: Progress | None = None
        self._seen = sys.stderr.isatty() and not (beside_output and sys.stdout.isatty())

    def __enter__(self) -> "Counter":
        self._began = time.monotonic()
        if self._seen:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self.what, total=None)
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        if self._progress is not None:
            rate = self.done / max(time.monotonic() - self._began, 1e-3)
            how_far = f" of {self.total:,}" if self.total else f", {rate:,.0f} a second"
            self._progress.update(self._task, description=f"{self.what} {self.done:,}{how_far},")

    def say(self, sentence: str) -> None:
        """Something worth keeping, above the line that counts."""
        if self._progress is None:
            typer.echo(sentence, err=True)
        else:
            self._progress.console.print(sentence, markup=False, highlight=False)


def watched(items: Iterable[Item], what: str) -> Iterator[Item]:
    """The same items, counted as they pass."""
    with Counter(what) as counter:
        for number, item in enumerate(items, start=1):
            yield item
            if number % 500 == 0:
                counter.add(500)
