"""Refusals that cost next to nothing: of a server that is full, before a request is parsed or its body is read.

Most of what a small model's server does is reading HTTP. If it did that for those that it must refuse anyway, there
would be less for the others, and refusals would come late.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from glassformer.server.headers import at_once

WORK = ("/api/translate", "/translate")
"""Routes that wait for the model."""
SENTENCE = "Too many requests are being worked on already: ask again in a moment."
BUSY = at_once(HTTPStatus.SERVICE_UNAVAILABLE, SENTENCE, (b"retry-after", b"1"))
HEAD = re.compile(rb"POST (/api/translate|/translate) HTTP/1\.1\r\n((?:[A-Za-z-]+:[ -~]*\r\n)+)\r\n")
LENGTH = re.compile(rb"(?:^|\n)content-length:([^\r]*)", re.IGNORECASE)
UNUSUAL = re.compile(rb"(?:^|\n)(?:transfer-encoding|connection|expect|upgrade):", re.IGNORECASE)
DIGITS = re.compile(rb" ?([0-9]{1,9})")


def is_whole(data: bytes) -> bytes | None:
    """The route, if this is one whole plain request to translate: nothing is missing, and nothing follows it."""
    head = HEAD.match(data)
    if head is None or UNUSUAL.search(head[2]):
        return None
    lengths = LENGTH.findall(head[2])
    length = DIGITS.fullmatch(lengths[0]) if len(lengths) == 1 else None
    return head[1] if length is not None and head.end() + int(length[1]) == len(data) else None


@dataclass
class RequestSlots:
    """How many more requests to translate there is room for.

    A loop reads from all its connections before it begins to answer, so those that were read are counted from there
    on; else hundreds would be parsed before the first of them takes its place.
    """

    most: int
    taken: Callable[[], int]
    """Places that are taken, also by clients that have left, whose work is not yet at an end."""
    read: int = 0
    """Requests that came in whole and are not yet answered."""

    def is_full(self) -> bool:
        return self.read >= self.most or self.taken() >= self.most
