"""Everything that uses uvicorn's internals: members that its documentation does not name and a release may change.

When uvicorn is upgraded, this is the place to look, and `ProtectedServer.uses_internals = False` lets the server work
without it. Why each part is here:

- Timeouts. uvicorn closes idle connections, but waits forever for the rest of the headers, and for a client that does
  not read its response. A few hundred such clients would occupy every connection (`TimedConnection`: `headers_since`,
  `paused_since`, `ending_since`; `ProtectedServer.on_tick` looks at them three times per second).
- Limit of connections. uvicorn's `limit_concurrency` refuses a request after it has been parsed; here a connection is
  refused at once, or the one closed that has waited longest without sending a request (`connection_made`).
- Load shedding. A full server refuses translation requests before they are parsed (`data_received`; see
  `load_shedding`).
- Strict parsing. h11 accepts lines that end in a bare LF, folded headers, and Content-Length beside Transfer-Encoding;
  a proxy in front may read such a request differently (request smuggling), so they are refused (`StrictParser`, with
  h11's `_receive_buffer` replaced, since trailers are read where no event shows them).
- Error responses. uvicorn's 400 is plain text; ours are JSON with the default headers (`send_400_response`).
- Stopping. uvicorn raises the signal again when it has stopped, which ends the process with an error
  (`capture_signals`), and waits for requests whose headers are incomplete (`shutdown`).

Used of `H11Protocol`: `conn`, `connections`, `cycle`, `loop`, `scope`, `transport`, `_unset_keepalive_if_required`,
`on_response_complete`, `send_400_response`, and asyncio's callbacks. Used of `Server`: `server_state.connections`,
`should_exit`, `started`, `startup`, `on_tick`, `shutdown`, `capture_signals`.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import Server

from glassformer.server.headers import CLOSE, raw_error_response
from glassformer.server.limits import Limits
from glassformer.server.load_shedding import BUSY_RESPONSE, TRANSLATE_PATHS, RequestSlots, route_of_complete_request
from glassformer.server.metrics import Metrics

SIGNALS = (signal.SIGINT, signal.SIGTERM)
MAX_REFUSED_CONNECTIONS = 128
"""Maximum number of refused connections that stay open for a moment, so that their clients can read the response."""


TOO_MANY_CONNECTIONS_RESPONSE = raw_error_response(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Too many connections are open. Try again in a moment.",
    (b"retry-after", b"1"),
    CLOSE,
)
INVALID_REQUEST = "This is not a valid HTTP request."
TOO_LONG = "The URL and headers, or the trailers, are too long. Send fewer or shorter ones."
HEAD_END = re.compile(rb"\A\r?\n|\n\r?\n")
"""The end of a request's head, or of the trailers after a chunked body, as h11 finds it."""
BARE_LF = "A line of the head or trailers ends in LF alone. End every line with CR LF."
FOLDED = "A header is folded over several lines. Send every header on one line."
MALFORMED_LINES = ((re.compile(rb"(?<!\r)\n"), BARE_LF), (re.compile(rb"\n[ \t]"), FOLDED))
TWO_LENGTHS = "The request has both Content-Length and Transfer-Encoding. Send one of them."
OTHER_VERSION = "The request is in a version of HTTP that this server does not speak. Send HTTP/1.1."


class StrictBuffer(ReceiveBuffer):
    """h11's buffer of received bytes; refuses bare LF, folding (RFC 9112, 2.2 and 5.2) and too long heads and trailers.

    h11 itself refuses too long ones only if they arrive in several packets.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Extract a head, or trailers."""
        match = HEAD_END.search(self._data)
        end = len(self._data) if match is None else match.end()
        for pattern, message in MALFORMED_LINES:
            if pattern.search(self._data, 0, end):
                raise h11.RemoteProtocolError(message)
        self._check_size(end)
        return super().maybe_extract_lines()

    def maybe_extract_next_line(self) -> bytearray | None:
        """Extract the size and the extensions of a chunk."""
        line = super().maybe_extract_next_line()
        self._check_size(0 if line is None else len(line))
        return line

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise h11.RemoteProtocolError(TOO_LONG, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


class StrictParser(h11.Connection):
    """h11's parser of a connection's requests, with a `StrictBuffer`, one version, and one length (RFC 9112, 6.3)."""

    refusal = (HTTPStatus.BAD_REQUEST, INVALID_REQUEST)
    """What the client is told about a request that cannot be parsed."""

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_head_bytes)
        self._receive_buffer = StrictBuffer(max_head_bytes)

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_head(event)
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                self.refusal = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_LONG)
            elif str(error) in (BARE_LF, FOLDED, TWO_LENGTHS, OTHER_VERSION):  # h11's own quote the request
                self.refusal = (HTTPStatus.BAD_REQUEST, str(error))
            raise
        return event


def _check_head(request: h11.Request) -> None:
    if request.http_version not in (b"1.0", b"1.1"):
        raise h11.RemoteProtocolError(OTHER_VERSION)
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in request.headers}:
        raise h11.RemoteProtocolError(TWO_LENGTHS)


class TimedConnection(H11Protocol):
    """HTTP connection (uvicorn's h11) that records since when it has been waiting for its client."""

    limits: Limits
    metrics: Metrics
    slots: RequestSlots
    counted = False
    """Whether a request of this connection is counted in `slots.received`."""
    headers_since: float | None = None
    """Since when the next request's headers are awaited; None during a request, and until the next one begins."""
    paused_since: float | None = None
    """Since when writing is paused because the client has not read."""
    ending_since: float | None = None
    """Since when the response is written but the client may not have read it to its end."""
    refused = False
    """Whether the connection was refused because the server had too many."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn: StrictParser = StrictParser(self.limits.header_bytes)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.headers_since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._close_slowest():
            self.metrics.cut.add(why="too many")
            self._refuse()

    def _refuse(self) -> None:
        """Send a 503, and leave the client a moment to read it: closing while it still sends would discard it."""
        self.refused = True
        if len(self.connections) > self.limits.connections + MAX_REFUSED_CONNECTIONS:
            self.transport.abort()
            return
        self.transport.write(TOO_MANY_CONNECTIONS_RESPONSE)
        self.transport.write_eof()
        self.loop.call_later(1, self.transport.abort)

    def _close_slowest(self) -> bool:
        """Close the connection that has waited longest without a request, if that is more than a second."""
        others = (other for other in self.connections if isinstance(other, TimedConnection) and not other.refused)
        waiting = [(other.headers_since, id(other), other) for other in others if other.headers_since is not None]
        since, _, slowest = min(waiting)  # this connection is one of them
        if not _has_passed(since, self.loop.time(), 1):
            return False
        slowest.headers_since = None
        self.metrics.cut.add(why="made room")
        slowest.transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        if self.refused or self.transport.is_closing():
            return
        self.ending_since = None
        if self.slots.is_full() and self._is_between_requests() and (route := route_of_complete_request(data)):
            self._refuse_request(route.decode())
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.headers_since = None
            if not (self.counted or self.cycle.more_body) and self.scope["path"] in TRANSLATE_PATHS:
                self._count(True)
        elif self.headers_since is None:
            self.headers_since = self.loop.time()

    def _count(self, counted: bool) -> None:
        if counted != self.counted:
            self.counted = counted
            self.slots.received += 1 if counted else -1

    def _is_between_requests(self) -> bool:
        """Whether the next bytes are the start of a request, and the last response has been taken."""
        is_idle = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        return is_idle and self.paused_since is None and not self.conn.trailing_data[0]

    def _refuse_request(self, route: str) -> None:
        self._unset_keepalive_if_required()
        self.headers_since = None
        self.transport.write(BUSY_RESPONSE)
        self.metrics.refused.add(status="503")
        self.metrics.requests.add(route=route, status="503")
        self.on_response_complete()  # restarts the keep-alive timer

    def send_400_response(self, msg: str) -> None:
        """Send a 400 or 431 as JSON, like all our error responses; uvicorn's is plain text."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(raw_error_response(*self.conn.refusal, CLOSE))
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

    def abort_if_overdue(self, now: float) -> None:
        """Close the connection at once, if its client has exceeded a time limit."""
        transport = self.transport
        unread = transport.get_write_buffer_size() > 0
        if transport.is_closing() and self.ending_since is None:
            self.ending_since = now
        overdue = {
            "slow headers": _has_passed(self.headers_since, now, self.limits.header_seconds),
            "slow reader": _has_passed(self.paused_since, now, self.limits.write_seconds)
            or (unread and _has_passed(self.ending_since, now, self.limits.write_seconds)),
        }
        for why, is_overdue in overdue.items():
            if is_overdue:
                self.metrics.cut.add(why=why)
                transport.abort()
                return


class ProtectedServer(Server):
    """uvicorn's server with `TimedConnection`s, a bounded shutdown and our handling of signals."""

    uses_internals: ClassVar[bool] = True
    """Switch: False leaves connections and signals to uvicorn, without what this module's docstring lists."""

    def __init__(
        self,
        config: Config,
        limits: Limits,
        metrics: Metrics,
        slots: RequestSlots,
        on_started: Callable[[], None],
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        """`on_started` is called when the server accepts connections, `on_hangup` at SIGHUP."""
        self.on_started, self.on_hangup = on_started, on_hangup
        if self.uses_internals:
            of_this_server = {"limits": limits, "metrics": metrics, "slots": slots}
            config.http = type("ServerConnection", (TimedConnection,), of_this_server)
        super().__init__(config)
        metrics.gauge("connections", "Open connections.", lambda: len(self.server_state.connections))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_started()

    def _timed_connections(self) -> list[TimedConnection]:
        return [one for one in self.server_state.connections if isinstance(one, TimedConnection)]

    async def on_tick(self, counter: int) -> bool:
        if counter % 3 == 0:
            now = asyncio.get_running_loop().time()
            for connection in self._timed_connections():
                connection.abort_if_overdue(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in self._timed_connections():
            if connection.headers_since is not None:
                connection.transport.abort()  # its request is incomplete
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle Ctrl-C and SIGTERM: the first stops the server without an error, the second kills it at once."""
        if not self.uses_internals:
            with super().capture_signals():
                yield
            return
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        if (hangup := self.on_hangup) is not None and hasattr(signal, "SIGHUP"):
            previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: hangup())
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        if self.should_exit:
            os._exit(1)
        self.should_exit = True


def _has_passed(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since > seconds
