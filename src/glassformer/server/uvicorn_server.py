"""uvicorn server: binds its socket before the model is loaded, stops within seconds."""

import asyncio
import errno
import ipaddress
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn

from glassformer.errors import InputError
from glassformer.server.access_log import AccessLog
from glassformer.server.access_policy import ServerAddress
from glassformer.server.app import DEFAULT_ADDRESS, make_app
from glassformer.server.limits import Limits
from glassformer.server.load_shedding import RequestSlots
from glassformer.server.state import ServerState
from glassformer.server.uvicorn_internals import ProtectedServer

SPARE_FILES = 256
"""Number of open files besides connections: the model's, the log, connections being refused."""


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to this address; port 0 takes a free port."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise InputError(
            f"{host!r} is not an address of this machine: {_reason(error)}. Choose another with --host."
        ) from None
    try:
        if sys.platform != "win32":  # there it would let two servers have one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        bound.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{host!r} is not an address of this machine. Choose another with --host.") from None
        raise InputError(
            f"Port {port} of {host} is not available: {_reason(error)}. Choose another with --port; 0 takes a free one."
        ) from None
    return bound


def bind_unix(path: Path) -> socket.socket:
    """Bind a Unix socket, whose file says who may connect; a socket that no server listens on any more is replaced."""
    if not hasattr(socket, "AF_UNIX"):
        raise InputError("This system has no Unix sockets: use --host and --port.")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_abandoned(path):
            path.unlink()
        bound.bind(str(path))
    except (OSError, ValueError) as error:
        bound.close()
        reason = "something is there already" if getattr(error, "errno", 0) == errno.EADDRINUSE else _reason(error)
        raise InputError(f"{path} cannot be made a Unix socket: {reason}. Choose another path.") from None
    return bound


def _is_abandoned(path: Path) -> bool:
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def is_unix(bound: socket.socket) -> bool:
    return hasattr(socket, "AF_UNIX") and bound.family == socket.AF_UNIX


def address_of(bound: socket.socket) -> str:
    """URL of a bound socket, to open in a browser; of a Unix socket, its path."""
    if is_unix(bound):
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_loopback(bound: socket.socket) -> bool:
    """Whether a bound socket can be reached from this machine only."""
    return is_unix(bound) or ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def limit_to_open_files(limits: Limits) -> Limits:
    """Raise the process's limit of open files; returns the limits with `connections` reduced to what it allows."""
    try:
        import resource
    except ImportError:  # a system without such a limit
        return limits
    needed = limits.connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    return limits.model_copy(update={"connections": max(1, soft - SPARE_FILES)})


class TranslationServer(ProtectedServer):
    """HTTP server of a model: uvicorn with our app, limits and shutdown."""

    def __init__(
        self,
        state: ServerState,
        address: ServerAddress = DEFAULT_ADDRESS,
        on_started: Callable[[], None] = lambda: None,
        log: AccessLog | None = None,
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        """`on_started` is called when it accepts connections, `on_hangup` at SIGHUP."""
        self.state = state
        limits = limit_to_open_files(state.limits)
        slots = RequestSlots(state.translate_pool.capacity, lambda: state.translate_pool.count)
        config = uvicorn.Config(
            make_app(state, address, log),
            http="h11",
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            log_level="error",  # only internal errors are logged; clients' errors are counted
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=int(limits.stop_seconds) + 3,
            h11_max_incomplete_event_size=limits.header_bytes,
            backlog=limits.connections,
        )
        super().__init__(config, limits, state.metrics, slots, on_started, on_hangup)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down: running requests may finish within `stop_seconds`; then they are refused."""
        deadline = asyncio.get_running_loop().call_later(self.state.limits.stop_seconds, self.state.stop_pools)
        await super().shutdown(sockets)
        deadline.cancel()


def run(server: TranslationServer, bound: socket.socket) -> None:
    """Run the server on a bound socket until it is stopped."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(server.serve([bound]))


def _new_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop: uvloop's if it is installed, else asyncio's.

    uvloop releases the GIL once per request, asyncio at every read and write, and each time the model's threads take
    their turn. A full server refuses requests more than twice as fast with uvloop.
    """
    try:
        import uvloop
    except ImportError:  # not available on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
