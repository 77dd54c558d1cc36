"""How far long work is: on stderr, and only where a person looks at it."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def watched(items: Iterable[Item], what: str) -> Iterator[Item]:
    """The same items, with a line that counts them as they pass."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        for number, item in enumerate(items, start=1):
            yield item
            if number % 500 == 0:
                progress.update(task, completed=number)
