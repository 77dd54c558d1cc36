"""Bounded worker pool: limits on running and waiting requests, a time limit, and cancellation when the client leaves.

The event loop never waits for a model.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request

from glassformer.server.http_errors import ClientDisconnectedError, busy
from glassformer.server.metrics import Metrics
from glassformer.server.request_batching import STOPPING

Result = TypeVar("Result")


def not_cancellable(why: BaseException) -> None:
    """A `cancel` function that does nothing, for work that cannot be cancelled once it has begun."""


class WorkerPool:
    """Bounded thread pool that does the work of requests, with a time limit and cancellation."""

    def __init__(
        self,
        name: str,
        threads: int,
        capacity: int,
        seconds: float,
        metrics: Metrics,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """`capacity`: maximum number of requests running or waiting. `initializer`: called first in each thread."""
        self.name, self.capacity, self.seconds, self.metrics = name, capacity, seconds, metrics
        self.count = 0
        """Number of requests that are waiting, running, or cancelled but not yet ended."""
        self.stopping = False
        self._outcomes: set[asyncio.Future[str]] = set()
        self._executor = ThreadPoolExecutor(threads, name, initializer)

    def is_full(self) -> bool:
        return self.count >= self.capacity

    async def run(
        self, request: Request, work: Callable[[], Result], cancel: Callable[[BaseException], None] = not_cancellable
    ) -> Result:
        """Run `work` in a thread. Raises an error if the pool is full, the time limit passes, or the client leaves."""
        if self.stopping:
            raise busy(STOPPING)
        if self.is_full():
            raise busy(f"{self.count} requests are already in progress. Try again in a moment.")
        self.count += 1
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[str] = loop.create_future()  # what happened first; one future, as every task costs time
        future = self._executor.submit(work)
        future.add_done_callback(lambda done: _call_in_loop(loop, self._work_ended, done, outcome))
        timeout = loop.call_later(self.seconds, _settle, outcome, "late")
        disconnect = asyncio.create_task(_wait_for_disconnect(request))
        disconnect.add_done_callback(lambda _: _settle(outcome, "left"))
        self._outcomes.add(outcome)
        try:
            why = await outcome
        except asyncio.CancelledError:
            cancel(ClientDisconnectedError())
            raise
        finally:
            self._outcomes.discard(outcome)
            timeout.cancel()
            disconnect.cancel()
        if why == "done":
            return future.result()
        self.metrics.given_up.add(why=why)
        error = _ERRORS[why](self.seconds)
        cancel(error)
        raise error

    def stop(self) -> None:
        """Accept no more requests, and refuse those in progress."""
        self.stopping = True
        for outcome in self._outcomes:
            _settle(outcome, "stopped")

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _work_ended(self, done: "Future[Any]", outcome: "asyncio.Future[str]") -> None:
        self.count -= 1
        _settle(outcome, "done")
        if not done.cancelled():
            done.exception()  # retrieved, whether or not a client still waits for it


_ERRORS: dict[str, Callable[[float], Exception]] = {
    "left": lambda seconds: ClientDisconnectedError(),
    "stopped": lambda seconds: busy(STOPPING),
    "late": lambda seconds: busy(f"The request took longer than {seconds:g} seconds. Send less, or try later.", 5),
}


def _settle(outcome: "asyncio.Future[str]", why: str) -> None:
    if not outcome.done():
        outcome.set_result(why)


def _call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback, *arguments)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
