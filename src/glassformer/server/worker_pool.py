"""Work that takes time, done in threads: so many at once, so many waiting, each with its time, and given up when its
client leaves. The event loop never waits for a model."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request

from glassformer.server.http_errors import ClientDisconnectedError, busy
from glassformer.server.metrics import Metrics
from glassformer.server.request_batching import STOPPING

Result = TypeVar("Result")


def nothing(why: BaseException) -> None:
    """For work that cannot be given up once it has begun."""


class WorkerPool:
    """Where requests are taken in."""

    def __init__(
        self,
        name: str,
        threads: int,
        most: int,
        seconds: float,
        metrics: Metrics,
        begin: Callable[[], None] | None = None,
    ) -> None:
        """`begin`: what each thread does first."""
        self.name, self.most, self.seconds, self.metrics = name, most, seconds, metrics
        self.count = 0
        """Requests that have a place: waiting, under way, or given up but not yet at an end."""
        self.stopping = False
        self._ends: set[asyncio.Future[str]] = set()
        self._pool = ThreadPoolExecutor(threads, name, begin)

    def is_full(self) -> bool:
        return self.count >= self.most

    async def do(
        self, request: Request, work: Callable[[], Result], give_up: Callable[[BaseException], None] = nothing
    ) -> Result:
        """What the work returns, if there is a place for it, if it ends in time, and if the client stays."""
        if self.stopping:
            raise busy(STOPPING)
        if self.is_full():
            raise busy(f"{self.count} requests are being worked on already: ask again in a moment.")
        self.count += 1
        loop = asyncio.get_running_loop()
        end: asyncio.Future[str] = loop.create_future()  # what came first; one future, because every task costs
        future = self._pool.submit(work)
        future.add_done_callback(lambda done: _tell(loop, self._freed, done, end))
        late = loop.call_later(self.seconds, _settle, end, "late")
        left = asyncio.create_task(_left(request))
        left.add_done_callback(lambda _: _settle(end, "left"))
        self._ends.add(end)
        try:
            why = await end
        except asyncio.CancelledError:
            give_up(ClientDisconnectedError())
            raise
        finally:
            self._ends.discard(end)
            late.cancel()
            left.cancel()
        if why == "done":
            return future.result()
        self.metrics.given_up.add(why=why)
        error = _ERRORS[why](self.seconds)
        give_up(error)
        raise error

    def stop(self) -> None:
        """Nobody is taken in any more; who is under way is refused."""
        self.stopping = True
        for end in self._ends:
            _settle(end, "stopped")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _freed(self, done: "Future[Any]", end: "asyncio.Future[str]") -> None:
        self.count -= 1
        _settle(end, "done")
        if not done.cancelled():
            done.exception()  # looked at, whether or not somebody still waits for it


_ERRORS: dict[str, Callable[[float], Exception]] = {
    "left": lambda seconds: ClientDisconnectedError(),
    "stopped": lambda seconds: busy(STOPPING),
    "late": lambda seconds: busy(f"This took longer than {seconds:g} seconds: ask for less, or later.", 5),
}


def _settle(end: "asyncio.Future[str]", why: str) -> None:
    if not end.done():
        end.set_result(why)


def _tell(loop: asyncio.AbstractEventLoop, hear: Callable[..., None], *what: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(hear, *what)


async def _left(request: Request) -> None:
    """Ends when the client is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
