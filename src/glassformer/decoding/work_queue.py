"""Several threads at one pile of work. Knows nothing of what the work is."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """Items in order, dealt out like cards; who has none left takes from the end of the fullest hand."""

    def __init__(self, items: Sequence[Item], count: int) -> None:
        self.count = count
        self.stopped = False
        """Whether nobody waits for more: whoever works may leave."""
        self._hands = [deque(items[i::count]) for i in range(count)]
        self._lock = threading.Lock()

    def stop(self) -> None:
        self.stopped = True

    def take(self, whose: int, fits: Callable[[Item], bool], steal: bool) -> Item | None:
        """The next item of a hand, if it fits; None if it does not, or if there is none."""
        with self._lock:
            own = self._hands[whose]
            if own:
                return own.popleft() if fits(own[0]) else None
            other = max(self._hands, key=len)
            return other.pop() if steal and other and fits(other[-1]) else None


def together(works: Sequence[Iterator[Item]], stop: Callable[[], None]) -> Iterator[Item]:
    """What all of them yield, as it comes, each in a thread of its own if there are several.

    What one of them raises is raised here. `stop` is called when no more is asked for, and must make them end.
    """
    if len(works) < 2:
        for work in works:
            yield from work
        return
    found: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()

    def run(work: Iterator[Item]) -> None:
        try:
            for item in work:
                found.put((item,))
            found.put(None)
        except BaseException as error:
            found.put(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            item = found.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item[0]
    finally:
        stop()
        for thread in threads:
            thread.join()
