"""Default response headers, and complete error responses as bytes. Knows nothing about what is served."""

import json
from http import HTTPStatus

API_POLICY = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "content-security-policy": API_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Default headers, sent with every response unless its route sets another value."""
ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
CLOSE = (b"connection", b"close")


def raw_error_response(status: HTTPStatus, message: str, *headers: tuple[bytes, bytes]) -> bytes:
    """A complete HTTP/1.1 error response, ready to be written to a socket."""
    body = json.dumps({"error": message}).encode()
    content_headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    lines = [b"%s: %s" % header for header in (*headers, *content_headers, *ENCODED_HEADERS)]
    return b"\r\n".join([f"HTTP/1.1 {status.value} {status.phrase}".encode(), *lines, b"", body])
