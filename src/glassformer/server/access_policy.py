"""Who may use a server, from where, and what is logged about it. Reads requests' headers, answers none."""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from glassformer.errors import SettingsError
from glassformer.server.access_log import AccessLog
from glassformer.server.api_keys import APIKeys
from glassformer.server.limits import Limits
from glassformer.server.metrics import Metrics

RequestHeaders = Sequence[tuple[bytes, bytes]]
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""What is accepted from a client as the id of its request; others get a new one."""
ANY_ORIGIN = "*"
CORS_HEADERS = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type, x-api-key, x-request-id"),
    (b"access-control-max-age", b"600"),
]
"""What a page of an allowed origin may send."""


@dataclass(frozen=True)
class ServerAddress:
    """Under which names a server is reached, by which pages, and below which path."""

    hosts: tuple[str, ...] = ()
    """Names that clients may use for this server, besides localhost and IP addresses; in lower case."""
    origins: tuple[str, ...] = ()
    """Other sites whose pages may send requests, as in https://example.org; `*` is all sites."""
    root_path: str = ""
    """The path below which a proxy serves it, as in /translate; empty for /."""

    @classmethod
    def of(cls, hosts: Sequence[str] = (), origins: Sequence[str] = (), root_path: str = "") -> "ServerAddress":
        """The checked address; slashes at the ends of the root path make no difference."""
        root_path = "/" + root_path.strip("/") if root_path.strip("/") else ""
        if not re.fullmatch(r"(/[\w.~-]+)*", root_path, re.ASCII):
            raise SettingsError(f"--root-path {root_path} should be a path, as in --root-path /translation.")
        return cls(tuple(host.lower() for host in hosts), tuple(map(_checked_origin, origins)), root_path)

    def is_own_host(self, host: str) -> bool:
        """Whether Host names this server (under DNS rebinding it names another site); any IP address is accepted."""
        name = _host_name(host)
        return name is not None and (name in ("localhost", *self.hosts) or _is_ip_address(name))

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this server sends the request."""
        try:
            parts = urlsplit(origin)
            return parts.netloc.lower() == host.lower() or parts.hostname in self.hosts
        except ValueError:
            return False

    def allowed_origin(self, origin: str | None) -> str | None:
        """What Access-Control-Allow-Origin tells another site's page that may read the response; None if none may."""
        if origin is None or not self.origins:
            return None
        return ANY_ORIGIN if ANY_ORIGIN in self.origins else origin if origin.lower() in self.origins else None

    def below_root(self, path: str) -> str | None:
        """A path without the root path, whether or not the proxy removed it; None: `/` is missing at its end."""
        if path == self.root_path:
            return None
        return path.removeprefix(self.root_path) if path.startswith(f"{self.root_path}/") else path


@dataclass(frozen=True)
class AccessPolicy:
    """Access policy of the middleware: limits, API keys, the server's address, its log, and whether it is full."""

    limits: Limits
    metrics: Metrics
    keys: APIKeys
    address: ServerAddress = field(default_factory=ServerAddress)
    log: AccessLog | None = None
    is_full: Callable[[], bool] = lambda: False
    """Whether a translation request would be refused now."""


def header(headers: RequestHeaders, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def api_key(headers: RequestHeaders) -> str | None:
    """The API key that a request's headers carry."""
    authorization = header(headers, b"authorization") or ""
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else header(headers, b"x-api-key")


def request_id(headers: RequestHeaders) -> str:
    """The id under which a request is logged and answered: its client's, or a new one."""
    given = header(headers, b"x-request-id") or ""
    return given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _checked_origin(origin: str) -> str:
    origin = origin.lower()
    if origin != ANY_ORIGIN and not re.fullmatch(r"https?://[^/?#@\s]+", origin):
        raise SettingsError(
            f"--allow-origin {origin} should be an origin without a path, as in --allow-origin https://example.org."
        )
    return origin


@lru_cache(256)  # the same few hosts recur; bounded, because clients may send any
def _host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None if the header is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises ValueError if it is invalid
    except ValueError:
        return None
    return None if parts.username is not None or parts.path or parts.query or parts.fragment else parts.hostname


@lru_cache(256)
def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
