"""A text that is too long for a model, cut where sentences end, or else where it hurts least. Nothing is lost."""

import re
from collections.abc import Callable, Iterator

# Where to cut, the best place first: behind a sentence, behind a clause, between words. Each keeps what it cuts behind.
PLACES = (
    re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])"),
    re.compile(r"(?<=[;:,–—])\s+|(?<=[、，；：])"),
    re.compile(r"\s+"),
)


def split(text: str, length: Callable[[str], int], longest: int) -> list[str]:
    """The text in as few parts as this takes: each at most `longest` by `length`, cut at the best places there are.

    A text that fits is its only part. A part that no place helps is cut in the middle.
    """
    return list(_split(text, length, longest, 0))


def _split(text: str, length: Callable[[str], int], longest: int, level: int) -> Iterator[str]:
    if length(text) <= longest or len(text) < 2:
        yield text
        return
    if level == len(PLACES):
        middle = len(text) // 2
        yield from _split(text[:middle], length, longest, level)
        yield from _split(text[middle:], length, longest, level)
        return
    part, size = "", 0
    for piece in _cut(text, PLACES[level]):
        more = length(piece)
        if size + more <= longest:
            part, size = part + piece, size + more
            continue
        if part:
            yield part
        part, size = (piece, more) if more <= longest else ("", 0)
        if not part:
            yield from _split(piece, length, longest, level + 1)
    if part:
        yield part


def _cut(text: str, place: re.Pattern[str]) -> Iterator[str]:
    begin = 0
    for found in place.finditer(text):
        if begin < found.end() < len(text):
            yield text[begin : found.end()]
            begin = found.end()
    yield text[begin:]
