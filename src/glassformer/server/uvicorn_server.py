"""A server on a socket: bound before the model is read, watched while it runs, ended within seconds."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from uvicorn.server import Server

from glassformer.errors import InputError
from glassformer.server.app import make_app
from glassformer.server.limits import Limits
from glassformer.server.load_shedding import RequestSlots
from glassformer.server.state import ServerState
from glassformer.server.timeouts import TimedConnection, timed_connection

SPARE = 256
"""Files beside connections: the model's, the log, those that are refused at this moment."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 takes a free one."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise InputError(f"{host!r} is no address of this machine: {_reason(error)}.") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        bound.close()
        raise InputError(
            f"Port {port} of {host} cannot be had: {_reason(error)}. Take another with --port, or 0 for a free one."
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """As one types it into a browser."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def with_files_enough(limits: Limits) -> Limits:
    """The limits, with no more connections than this process may have open files, of which it first asks for enough."""
    try:
        import resource
    except ImportError:  # a system without such a limit
        return limits
    wanted = limits.connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    return limits.model_copy(update={"connections": max(1, soft - SPARE)})


class TranslationServer(Server):
    """uvicorn's server with an eye on its connections, and with an end."""

    def __init__(self, house: ServerState, hosts: Sequence[str] = (), tell: Callable[[], None] = lambda: None) -> None:
        self.house, self.tell = house, tell
        limits = with_files_enough(house.limits)
        self.guard = make_app(house, hosts)
        super().__init__(
            uvicorn.Config(
                self.guard,
                http=timed_connection(limits, house.metrics, RequestSlots(house.desk.most, lambda: house.desk.count)),
                ws="none",
                lifespan="on",
                loop="asyncio",
                log_config=None,
                log_level="error",  # one line for what is ours; a client's mistakes are counted, not written down
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=limits.idle_seconds,
                timeout_graceful_shutdown=int(limits.stop_seconds) + 3,
                h11_max_incomplete_event_size=limits.header_bytes,
                backlog=limits.connections,
            )
        )
        house.metrics.gauge("connections", "Connections that are open.", lambda: len(self.server_state.connections))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.tell()

    async def on_tick(self, counter: int) -> bool:
        if counter % 3 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, TimedConnection):
                    connection.cut_if_overdue(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What is under way may end; after a while it is refused."""
        waiting = asyncio.get_running_loop().call_later(self.house.limits.stop_seconds, self.house.refuse_all)
        for connection in list(self.server_state.connections):
            if isinstance(connection, TimedConnection) and connection.headers_since is not None:
                connection.transport.abort()  # half a request is none
        await super().shutdown(sockets)
        waiting.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the server, and that is no error; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self._asked_to_stop) for one in SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _asked_to_stop(self, *_: object) -> None:
        if self.should_exit:
            os._exit(1)
        self.should_exit = True


def run(server: TranslationServer, bound: socket.socket) -> None:
    """Serve until told to stop."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(server.serve([bound]))


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is there: it lets Python go once a request, asyncio's at every read and write, and each time
    the model's threads take their turn. Refusals of a full server come more than twice as fast."""
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
