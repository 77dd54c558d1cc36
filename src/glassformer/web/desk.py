"""Work that takes time, done in threads: so many at once, so many waiting, each with its time, and given up when its
client leaves. The event loop never waits for a model."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request

from glassformer.web.batching import STOPPING
from glassformer.web.metrics import Metrics
from glassformer.web.refusal import ClientLeftError, busy

Result = TypeVar("Result")


def nothing(why: BaseException) -> None:
    """For work that cannot be given up once it has begun."""


class Desk:
    """Where requests are taken in."""

    def __init__(self, name: str, hands: int, most: int, seconds: float, metrics: Metrics) -> None:
        self.name, self.most, self.seconds, self.metrics = name, most, seconds, metrics
        self.count = 0
        """Requests that have a place: waiting, under way, or given up but not yet at an end."""
        self.stopping = asyncio.Event()
        self._pool = ThreadPoolExecutor(hands, thread_name_prefix=name)

    async def do(
        self, request: Request, work: Callable[[], Result], give_up: Callable[[BaseException], None] = nothing
    ) -> Result:
        """What the work returns, if there is a place for it, if it ends in time, and if the client stays."""
        if self.stopping.is_set():
            raise busy(STOPPING)
        if self.count >= self.most:
            raise busy(f"{self.count} requests are being worked on already: ask again in a moment.")
        self.count += 1
        future = self._pool.submit(work)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda done: _tell(loop, self._freed, done))
        answer = asyncio.wrap_future(future)
        left = asyncio.create_task(_left(request))
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            waited: set[asyncio.Future[Any]] = {answer, left, stopping}
            await asyncio.wait(waited, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            why = "left" if left.done() else "stopped" if stopping.done() else "late"
            self.metrics.given_up.add(why=why)
            error = _ERRORS[why](self.seconds)
            give_up(error)
            raise error
        except asyncio.CancelledError:
            give_up(ClientLeftError())
            raise
        finally:
            for waiting in (answer, left, stopping):
                waiting.cancel()

    def stop(self) -> None:
        """Nobody is taken in any more; who is under way is refused."""
        self.stopping.set()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _freed(self, done: "Future[Any]") -> None:
        self.count -= 1
        if not done.cancelled():
            done.exception()  # looked at, whether or not somebody still waits for it


_ERRORS: dict[str, Callable[[float], Exception]] = {
    "left": lambda seconds: ClientLeftError(),
    "stopped": lambda seconds: busy(STOPPING),
    "late": lambda seconds: busy(f"This took longer than {seconds:g} seconds: ask for less, or later.", 5),
}


def _tell(loop: asyncio.AbstractEventLoop, hear: "Callable[[Future[Any]], None]", done: "Future[Any]") -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(hear, done)


async def _left(request: Request) -> None:
    """Ends when the client is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
