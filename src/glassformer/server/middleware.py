"""ASGI middleware: checks every request before it reaches a route, and adds the default headers to every response.

Checks Host and Origin (against DNS rebinding and cross-site requests), API keys, sizes, and slow bodies; answers the
preflight requests of pages of allowed origins; logs. Knows nothing about what is served.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.server.access_policy import CORS_HEADERS, AccessPolicy, api_key, header, request_id
from glassformer.server.api_keys import APIKey
from glassformer.server.headers import ENCODED_HEADERS
from glassformer.server.http_errors import ClientDisconnectedError, HTTPError, busy, printable
from glassformer.server.load_shedding import BUSY_MESSAGE, TRANSLATE_PATHS

logger = logging.getLogger("glassformer.server")

PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
PUBLIC_PATHS = ("/", "/docs", "/openapi.json", "/health", "/languages", "/frontend/settings")
"""Paths that need no API key: the page, the API's description, the server's status. `/assets/...` needs none either."""
LINKABLE_PATHS = ("/", "/docs")
"""Paths of pages that other sites may link to."""
OTHER_SITES = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site for pages that are not ours; another port of this machine is the "same site"."""
CROSS_SITE = "Requests from other sites' pages are not allowed."
INTERNAL_ERROR = "Internal server error. The server's log has the details."
KEY_IN_BODY_PATHS = ("/translate", "/detect")
"""Paths where LibreTranslate's clients put their key into the body; the route checks it."""
RouteKey = tuple[str, str]
"""Method and path of a route."""
LOG_INTERVAL_SECONDS = 10
"""Minimum time between two logged internal errors; those in between are only counted."""
DISCARD_FACTOR = 8
"""Bytes discarded after a 413, as a multiple of `body_bytes`, so that a client still sending can read the response."""


class ProtectionMiddleware:
    """ASGI middleware that checks every request before it reaches the app, and adds default headers to responses."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy, direct: Mapping[RouteKey, ASGIApp] | None = None) -> None:
        self.app, self.policy = app, policy
        self.direct = direct or {}
        """Endpoints of the most frequent requests, by method and path; they are called without the app."""
        self.under_way = 0
        """Number of requests that are not yet answered."""
        self.reading = 0
        """Number of bytes received of request bodies that are not yet complete."""
        self._logged_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, asked = time.perf_counter(), (scope["method"], scope["path"])
        scope["glassformer.request_id"] = identity = request_id(scope["headers"])
        writer = ResponseWriter(send, [(b"x-request-id", identity.encode())])
        self.under_way += 1
        try:
            if (path := self.policy.address.below_root(scope["path"])) is None:
                await writer.send_empty(308, (b"location", f"{scope['path']}/".encode()))
                return
            scope["path"] = path
            if self._check(scope, writer):
                await writer.send_empty(204, *CORS_HEADERS)
                return
            body = await self._read_body(scope, receive)
            app = self.direct.get((scope["method"], path), self.app)
            await app(scope, _replay(body, receive), writer)
        except HTTPError as error:
            self.policy.metrics.refused.add(status=str(error.status))
            await writer.send_error(error, receive, DISCARD_FACTOR * self.policy.limits.body_bytes)
        except ClientDisconnectedError:
            writer.status = 499  # as other servers log clients that left
        except Exception:
            self.policy.metrics.errors.add()
            self._log_exception(scope)
            await writer.send_error(HTTPError(500, INTERNAL_ERROR), receive, 0)
        finally:
            self.under_way -= 1
            seconds, route = time.perf_counter() - began, getattr(scope.get("route"), "path", "other")
            self.policy.metrics.requests.add(route=route, status=str(writer.status))
            self.policy.metrics.latency.observe(seconds, route=route)
            if self.policy.log is not None:
                client, key = scope.get("client"), scope.get("glassformer.key")
                name = key.name if isinstance(key, APIKey) else None
                where = client[0] if client else "-"
                self.policy.log.write(identity, where, name, *asked, writer.status, seconds)

    def _log_exception(self, scope: Scope) -> None:
        """Log an internal error, at most once per interval: a flood of errors must not fill the disk."""
        if (now := time.monotonic()) - self._logged_at > LOG_INTERVAL_SECONDS:
            self._logged_at = now
            logger.exception("%s %r", scope["method"], scope["path"])

    def _check(self, scope: Scope, writer: "ResponseWriter") -> bool:
        """Refuse what is not allowed; returns whether this is the preflight request of a page of an allowed origin."""
        headers, address = scope["headers"], self.policy.address
        size = sum(len(name) + len(value) + 4 for name, value in headers) + len(scope["raw_path"])
        if size + len(scope["query_string"]) > (limit := self.policy.limits.header_bytes):
            raise HTTPError(431, f"The URL and headers have more than {limit:,} bytes. Send fewer or shorter ones.")
        host = header(headers, b"host") or ""
        if not address.is_own_host(host):
            raise HTTPError(
                421,
                f"This server does not answer to the host name {host!r}. Use its IP address, or restart it with "
                f"--allow-host {host}.",
            )
        origin = header(headers, b"origin")
        if (allowed := address.allowed_origin(origin)) is not None:
            writer.headers += [(b"access-control-allow-origin", allowed.encode("latin-1")), (b"vary", b"origin")]
            writer.headers.append((b"access-control-expose-headers", b"retry-after, x-request-id"))
            if scope["method"] == "OPTIONS" and header(headers, b"access-control-request-method") is not None:
                return True
        elif origin is not None and not address.is_own_origin(origin, host):
            raise HTTPError(403, CROSS_SITE)
        elif header(headers, b"sec-fetch-site") in OTHER_SITES and scope["path"] not in LINKABLE_PATHS:
            raise HTTPError(403, CROSS_SITE)  # images and scripts are requested without an Origin
        self._check_key(scope)
        if scope["path"] in TRANSLATE_PATHS and self.policy.is_full():
            raise busy(BUSY_MESSAGE)  # before its body is read
        return False

    def _check_key(self, scope: Scope) -> None:
        path, keys = scope["path"], self.policy.keys
        scope["glassformer.key"] = key = keys.find(api_key(scope["headers"])) if keys else None
        scope["glassformer.needs_key"] = keys and key is None
        is_public = path in PUBLIC_PATHS or path.startswith("/assets/")
        if key is not None and not is_public:
            admit(key)
        if scope["glassformer.needs_key"] and not (is_public or path in KEY_IN_BODY_PATHS):
            raise HTTPError(401, "This server requires an API key. Send the header Authorization: Bearer KEY.")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the complete body of a request, if it is small enough and arrives in time."""
        limit = self.policy.limits.body_bytes
        length = header(scope["headers"], b"content-length")
        if length is not None and length.isdecimal() and int(length[:20]) > limit:
            raise _too_large(limit)
        if length in (None, "0") and header(scope["headers"], b"transfer-encoding") is None:
            return b""
        try:
            async with asyncio.timeout(self.policy.limits.body_seconds):
                return await self._receive_all(receive, limit)
        except TimeoutError:
            raise HTTPError(
                408,
                f"The body did not arrive within {self.policy.limits.body_seconds:g} seconds. Send less per request.",
            ) from None

    async def _receive_all(self, receive: Receive, limit: int) -> bytes:
        parts, size = [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnectedError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self.reading += len(parts[-1])
                if size > limit:
                    raise _too_large(limit)
                if self.reading > self.policy.limits.reading_bytes:
                    raise busy("Too many request bodies are being received at once. Try again in a moment.")
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            self.reading -= size


class ResponseWriter:
    """ASGI `send` that adds the default headers to every response."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self._send, self.headers = send, list(headers)
        self.status = 0
        """HTTP status of the response; 0 until it has started."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            missing = [header for header in ENCODED_HEADERS if header[0] not in present]
            message = {**message, "headers": [*message["headers"], *self.headers, *missing]}
        await self._send(message)

    async def send_empty(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        """Send a response without a body."""
        await self({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0"), *headers]})
        await self({"type": "http.response.body", "body": b""})

    async def send_error(self, error: HTTPError, receive: Receive, max_discard: int) -> None:
        """Send an error as the response, if no response has started.

        After a 413, the rest of the body is read and discarded, up to `max_discard` bytes.
        """
        if self.status:
            return
        body = json.dumps({"error": printable(str(error))}, ensure_ascii=False).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if error.retry_after is not None:
            headers.append((b"retry-after", str(error.retry_after).encode()))
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if closing := error.status in (408, 413, 431):
            headers.append((b"connection", b"close"))  # does not wait for the rest of the body
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self({"type": "http.response.body", "body": body, "more_body": closing})
        if closing:
            await _discard(receive, max_discard if error.status == 413 else 0)
            await self({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive, max_bytes: int) -> None:
    try:
        async with asyncio.timeout(2):
            while max_bytes > 0:
                message = await receive()
                max_bytes -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _too_large(limit: int) -> HTTPError:
    return HTTPError(413, f"The body has more than {limit:,} bytes. Send less per request.")


def _replay(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """ASGI `receive` for the app: first the body, which has already been read, then further messages."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def admit(key: APIKey) -> None:
    """Count a request with this key; refuse it if there were too many in the last minute."""
    if seconds := key.seconds_to_wait():
        raise HTTPError(429, f"This API key allows {key.per_minute:,} requests per minute. Try again later.", seconds)
