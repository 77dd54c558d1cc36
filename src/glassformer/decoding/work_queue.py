"""Work queue: per-worker deques with work stealing, and threads that run the workers. Holds items of any kind."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")


class WorkQueue(Generic[Item]):
    """Work queue: one deque of items per worker, filled round-robin; an idle one steals from the end of the longest."""

    def __init__(self, items: Sequence[Item], workers: int) -> None:
        self.workers = workers
        self.stopped = False
        """Whether workers should return, because their results are no longer needed."""
        self._deques = [deque(items[i::workers]) for i in range(workers)]
        self._lock = threading.Lock()

    def stop(self) -> None:
        self.stopped = True

    def take(self, worker: int, fits: Callable[[Item], bool], steal: bool) -> Item | None:
        """Take a worker's next item, if it fits; None if it does not fit or no item is left."""
        with self._lock:
            own = self._deques[worker]
            if own:
                return own.popleft() if fits(own[0]) else None
            longest = max(self._deques, key=len)
            return longest.pop() if steal and longest and fits(longest[-1]) else None


def run_workers(workers: Sequence[Iterator[Item]], stop: Callable[[], None]) -> Iterator[Item]:
    """Run all workers, each in its own thread if there are several, and yield their items as they come.

    An exception in a worker is raised here. `stop` is called when no more items are needed, and must make the workers
    return.
    """
    if len(workers) < 2:
        for worker in workers:
            yield from worker
        return
    results: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()

    def run(worker: Iterator[Item]) -> None:
        try:
            for item in worker:
                results.put((item,))
            results.put(None)
        except BaseException as error:
            results.put(error)

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                running -= 1
            else:
                yield result[0]
    finally:
        stop()
        for thread in threads:
            thread.join()
