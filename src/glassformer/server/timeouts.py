"""Connections that are watched: who sends headers too slowly, or does not read the answer, is cut.

uvicorn closes idle connections, but waits for ever for the rest of a header and for a reader that does not read.
"""

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.server.headers import CLOSE, at_once
from glassformer.server.limits import Limits
from glassformer.server.load_shedding import BUSY, WORK, RequestSlots, is_whole
from glassformer.server.metrics import Metrics

LINGERING = 128
"""Refused connections that are open for a moment more, so that their clients can read why."""


FULL = at_once(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Too many connections are open: ask again in a moment.",
    (b"retry-after", b"1"),
    CLOSE,
)
NONSENSE = at_once(HTTPStatus.BAD_REQUEST, "What came is no HTTP request, or its headers are too long.", CLOSE)


class TimedConnection(H11Protocol):
    """A connection that knows since when it waits for what. `timed_connection` makes the class that a server needs."""

    limits: Limits
    metrics: Metrics
    places: RequestSlots
    counted = False
    """Whether a request of this connection is among those that were read and not yet answered."""
    headers_since: float | None = None
    """Since when the headers of the next request are waited for; None while one is under way, or none has begun."""
    paused_since: float | None = None
    """Since when so much is unread that no more is written."""
    ending_since: float | None = None
    """Since when all is written, and the last of it is on its way."""
    refused = False
    """Whether there was no room for it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.headers_since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._cut_the_slowest():
            self.metrics.cut.add(why="too many")
            self._refuse()

    def _refuse(self) -> None:
        """Say so, and give the client a moment to hear it: what it sends would else cut the answer off."""
        self.refused = True
        if len(self.connections) > self.limits.connections + LINGERING:
            self.transport.abort()
            return
        self.transport.write(FULL)
        self.transport.write_eof()
        self.loop.call_later(1, self.transport.abort)

    def _cut_the_slowest(self) -> bool:
        """Make room: of those that have asked for nothing for a second, the one that was waited for longest goes."""
        others = (one for one in self.connections if isinstance(one, TimedConnection) and not one.refused)
        silent = [(one.headers_since, id(one), one) for one in others if one.headers_since is not None]
        since, _, slowest = min(silent)  # this one is among them
        if not _passed(since, self.loop.time(), 1):
            return False
        slowest.headers_since = None
        self.metrics.cut.add(why="made room")
        slowest.transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        if self.refused or self.transport.is_closing():
            return
        self.ending_since = None
        if self.places.is_full() and self._is_between_requests() and (route := is_whole(data)) is not None:
            self._refuse_request(route.decode())
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.headers_since = None
            if not (self.counted or self.cycle.more_body) and self.scope["path"] in WORK:
                self._count(True)
        elif self.headers_since is None:
            self.headers_since = self.loop.time()

    def _count(self, counted: bool) -> None:
        if counted != self.counted:
            self.counted = counted
            self.places.read += 1 if counted else -1

    def _is_between_requests(self) -> bool:
        """Whether what comes now is the beginning of a request, and the last answer was taken."""
        is_idle = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        return is_idle and self.paused_since is None and not self.conn.trailing_data[0]

    def _refuse_request(self, route: str) -> None:
        self._unset_keepalive_if_required()
        self.headers_since = None
        self.transport.write(BUSY)
        self.metrics.refused.add(status="503")
        self.metrics.requests.add(route=route, status="503")
        self.on_response_complete()  # the connection stays open for a while

    def send_400_response(self, msg: str) -> None:
        """uvicorn's is plain text; every answer of ours that is none is one sentence in JSON."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(NONSENSE)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._count(False)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._count(False)
        self.ending_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.paused_since = None
        super().resume_writing()

    def cut_if_overdue(self, now: float) -> None:
        """Close it without waiting, if its client was waited for long enough."""
        transport = self.transport
        unread = transport.get_write_buffer_size() > 0
        if transport.is_closing() and self.ending_since is None:
            self.ending_since = now
        overdue = {
            "slow headers": _passed(self.headers_since, now, self.limits.header_seconds),
            "slow reader": _passed(self.paused_since, now, self.limits.write_seconds)
            or (unread and _passed(self.ending_since, now, self.limits.write_seconds)),
        }
        for why, is_overdue in overdue.items():
            if is_overdue:
                self.metrics.cut.add(why=why)
                transport.abort()
                return


def timed_connection(limits: Limits, metrics: Metrics, places: RequestSlots) -> type[TimedConnection]:
    """The class of connections for a server with these limits."""
    return type("WatchedConnection", (TimedConnection,), {"limits": limits, "metrics": metrics, "places": places})


def _passed(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since > seconds
