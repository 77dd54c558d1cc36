"""Load shedding: a full server refuses translation requests before it parses them or reads their body.

Most of what a small model's server does is reading HTTP. If it did that for requests that it must refuse anyway, less
time would be left for the others, and refusals would come late.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from glassformer.server.headers import raw_error_response

TRANSLATE_PATHS = ("/api/translate", "/translate")
"""Paths of the translation routes, which wait for the model."""
BUSY_MESSAGE = "Too many requests are in progress. Try again in a moment."
BUSY_RESPONSE = raw_error_response(HTTPStatus.SERVICE_UNAVAILABLE, BUSY_MESSAGE, (b"retry-after", b"1"))
HEAD = re.compile(rb"POST (/api/translate|/translate) HTTP/1\.1\r\n((?:[A-Za-z-]+:[ -~]*\r\n)+)\r\n")
CONTENT_LENGTH = re.compile(rb"(?:^|\n)content-length:([^\r]*)", re.IGNORECASE)
SPECIAL_HEADER = re.compile(rb"(?:^|\n)(?:transfer-encoding|connection|expect|upgrade):", re.IGNORECASE)
DIGITS = re.compile(rb" ?([0-9]{1,9})")


def route_of_complete_request(data: bytes) -> bytes | None:
    """The route, if the bytes are exactly one complete plain translation request: nothing missing, nothing after."""
    head = HEAD.match(data)
    if head is None or SPECIAL_HEADER.search(head[2]):
        return None
    lengths = CONTENT_LENGTH.findall(head[2])
    length = DIGITS.fullmatch(lengths[0]) if len(lengths) == 1 else None
    return head[1] if length is not None and head.end() + int(length[1]) == len(data) else None


@dataclass
class RequestSlots:
    """Counter of translation requests that says whether one more can be accepted.

    An event loop reads from all its connections before it starts to answer, so a request counts from the moment it was
    read; otherwise hundreds would be parsed before the first of them occupies its slot.
    """

    capacity: int
    running: Callable[[], int]
    """Function that counts occupied slots, including those of clients that have left but whose work has not ended."""
    received: int = 0
    """Number of requests that were read completely and are not yet answered."""

    def is_full(self) -> bool:
        return self.received >= self.capacity or self.running() >= self.capacity
