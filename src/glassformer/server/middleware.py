"""The door: what is refused before a route hears of it, and what every answer carries.

Host and Origin against browsers led here by other pages, keys, sizes, slow bodies. Knows nothing of what is served.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.server.api_keys import APIKeys
from glassformer.server.headers import IN_BYTES
from glassformer.server.http_errors import ClientDisconnectedError, HTTPError, busy, printable
from glassformer.server.limits import Limits
from glassformer.server.load_shedding import SENTENCE, WORK
from glassformer.server.metrics import Metrics

logger = logging.getLogger("glassformer.server")

PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
OPEN = ("/", "/docs", "/openapi.json", "/health", "/languages", "/frontend/settings")
"""Needs no key: the page itself, what can be asked, whether the server lives. `/assets/...` is open too."""
PAGES = ("/", "/docs")
"""What another site's page may link to."""
OTHER_SITES = ("cross-site", "same-site")
"""What a browser says of a page that is not ours; another port of this machine is the "same site"."""
STRANGER = "This request comes from another site's page, and they are not let in."
KEY_IN_BODY = ("/translate", "/detect")
"""Where LibreTranslate's clients put their key; the route looks."""
Asked = tuple[str, str]
"""Method and path."""
QUIET = 10
"""Seconds after an error of ours was written to the log, in which others are only counted."""
DISCARDED = 8
"""Times the largest body that is read and thrown away, so that a client that still writes can hear its refusal."""


@dataclass(frozen=True)
class AccessPolicy:
    """Who may come in."""

    limits: Limits
    metrics: Metrics
    keys: APIKeys
    hosts: Sequence[str] = field(default_factory=tuple)
    """Names that this server is known by, beside localhost and addresses in digits."""
    is_full: Callable[[], bool] = lambda: False
    """Whether a request to translate would be refused now."""


class ProtectionMiddleware:
    """ASGI around the app."""

    def __init__(self, app: ASGIApp, door: AccessPolicy, direct: Mapping[Asked, ASGIApp] | None = None) -> None:
        self.app, self.door = app, door
        self.direct = direct or {}
        """What is asked most, by method and path: it need not go through all that an app may do with a request."""
        self.under_way = 0
        """Requests that are not yet answered."""
        self.reading = 0
        """Bytes of bodies that are not yet whole."""
        self._written_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, answer = time.perf_counter(), ResponseWriter(send)
        self.under_way += 1
        try:
            self._check(scope)
            body = await self._body(scope, receive)
            app = self.direct.get((scope["method"], scope["path"]), self.app)
            await app(scope, _again(body, receive), answer)
        except HTTPError as refusal:
            self.door.metrics.refused.add(status=str(refusal.status))
            await answer.refuse(refusal, receive, DISCARDED * self.door.limits.body_bytes)
        except ClientDisconnectedError:
            answer.status = 499  # as other servers write down a client that left
        except Exception:
            self.door.metrics.errors.add()
            self._write_down(scope)
            await answer.refuse(HTTPError(500, "Something went wrong inside; the server's log has it."), receive, 0)
        finally:
            self.under_way -= 1
            route = getattr(scope.get("route"), "path", "other")
            self.door.metrics.requests.add(route=route, status=str(answer.status))
            self.door.metrics.latency.observe(time.perf_counter() - began, route=route)

    def _write_down(self, scope: Scope) -> None:
        """What went wrong, but not a thousand times: the disk is bounded too."""
        if (now := time.monotonic()) - self._written_at > QUIET:
            self._written_at = now
            logger.exception("%s %r", scope["method"], scope["path"])

    def _check(self, scope: Scope) -> None:
        headers = scope["headers"]
        size = sum(len(name) + len(value) + 4 for name, value in headers) + len(scope["raw_path"])
        if size + len(scope["query_string"]) > (most := self.door.limits.header_bytes):
            raise HTTPError(431, f"The headers have more than {most:,} bytes.")
        host = _header(headers, b"host") or ""
        if not self._is_ours(host):
            raise HTTPError(
                421, f"This server is not {host!r}: ask it by its address, or start it with --allow-host NAME."
            )
        origin = _header(headers, b"origin")
        if origin is not None and not self._is_same(origin, host):
            raise HTTPError(403, STRANGER)
        if _header(headers, b"sec-fetch-site") in OTHER_SITES and scope["path"] not in PAGES:
            raise HTTPError(403, STRANGER)  # a picture's or a script's address: these come without an Origin
        scope["glassformer.key"] = fits = not self.door.keys or self.door.keys.fits(_key(headers))
        path = scope["path"]
        if not (fits or path in OPEN or path in KEY_IN_BODY or path.startswith("/assets/")):
            raise HTTPError(401, "This server asks for a key: send the header Authorization: Bearer KEY.")
        if path in WORK and self.door.is_full():
            raise busy(SENTENCE)  # before its body is read

    def _is_ours(self, host: str) -> bool:
        """A browser that is led here by another site's name says that name; an address in digits is nobody's name."""
        name = _name(host)
        return name is not None and (name in ("localhost", *self.door.hosts) or _is_address(name))

    def _is_same(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            return parts.netloc.lower() == host.lower() or parts.hostname in self.door.hosts
        except ValueError:
            return False

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, if it is small enough and comes in time."""
        most = self.door.limits.body_bytes
        length = _header(scope["headers"], b"content-length")
        if length is not None and length.isdecimal() and int(length[:20]) > most:
            raise _too_large(most)
        if length in (None, "0") and _header(scope["headers"], b"transfer-encoding") is None:
            return b""
        try:
            async with asyncio.timeout(self.door.limits.body_seconds):
                return await self._whole(receive, most)
        except TimeoutError:
            raise HTTPError(
                408, f"The body did not come within {self.door.limits.body_seconds:g} seconds: send it faster."
            ) from None

    async def _whole(self, receive: Receive, most: int) -> bytes:
        parts, size = [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnectedError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self.reading += len(parts[-1])
                if size > most:
                    raise _too_large(most)
                if self.reading > self.door.limits.reading_bytes:
                    raise busy("Too much is being sent at once: ask again in a moment.")
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            self.reading -= size


class ResponseWriter:
    """`send`, with the headers that every answer carries."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        """0 until one is sent."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            more = [header for header in IN_BYTES if header[0] not in present]
            message = {**message, "headers": [*message["headers"], *more]}
        await self._send(message)

    async def refuse(self, refusal: HTTPError, receive: Receive, discard: int) -> None:
        """The refusal, if nothing was sent yet; what the client still sends is read and thrown away, up to a point."""
        if self.status:
            return
        body = json.dumps({"error": printable(str(refusal))}, ensure_ascii=False).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if refusal.retry_after is not None:
            headers.append((b"retry-after", str(refusal.retry_after).encode()))
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if closing := refusal.status in (408, 413, 431):
            headers.append((b"connection", b"close"))  # the rest of the body is not waited for
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body, "more_body": closing})
        if closing:
            await _discard(receive, discard if refusal.status == 413 else 0)
            await self({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive, most: int) -> None:
    try:
        async with asyncio.timeout(2):
            while most > 0:
                message = await receive()
                most -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _too_large(most: int) -> HTTPError:
    return HTTPError(413, f"The body has more than {most:,} bytes: send less at once.")


def _again(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """`receive` for the app: the body, which was read already, then whatever comes."""
    told = False

    async def heard() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return heard


def _header(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name == wanted), None)


def _key(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    said = _header(headers, b"authorization") or ""
    kind, _, key = said.partition(" ")
    return key.strip() if kind.lower() == "bearer" else _header(headers, b"x-api-key")


@lru_cache(256)  # the same few, again and again; bounded, because anybody may send others
def _name(host: str) -> str | None:
    """The name in a Host header, without its port."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - complains about one that is none
    except ValueError:
        return None
    return None if parts.username is not None or parts.path or parts.query or parts.fragment else parts.hostname


@lru_cache(256)
def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the API's description: answers that are one sentence."""
    from glassformer.server.schemas import Wrong

    return {status: {"model": Wrong} for status in statuses}
