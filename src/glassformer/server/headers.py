"""What every answer carries, and answers that no route gives. Knows HTTP's bytes; knows nothing of what is served."""

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
"""Of every answer, unless its route says otherwise."""
IN_BYTES = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
CLOSE = (b"connection", b"close")


def at_once(status: HTTPStatus, sentence: str, *headers: tuple[bytes, bytes]) -> bytes:
    """A whole refusal, ready to be written."""
    body = json.dumps({"error": sentence}).encode()
    about = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    lines = [b"%s: %s" % one for one in (*headers, *about, *IN_BYTES)]
    return b"\r\n".join([f"HTTP/1.1 {status.value} {status.phrase}".encode(), *lines, b"", body])
