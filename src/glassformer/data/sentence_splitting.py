"""Sentence splitting for texts that are too long for a model: at sentence ends, else clauses, else words.

Nothing is lost: the parts concatenate to the text.
"""

import re
from collections.abc import Callable, Iterator

# Where to split, best first: after a sentence, after a clause, between words. The delimiter stays with the part before.
BOUNDARIES = (
    re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])"),
    re.compile(r"(?<=[;:,–—])\s+|(?<=[、，；：])"),
    re.compile(r"\s+"),
)


def split(text: str, length: Callable[[str], int], max_length: int) -> list[str]:
    """Split a text at the best boundaries into few parts, each at most `max_length` as measured by `length`.

    A text that fits is returned as its only part. A part without any boundary is split in the middle.
    """
    return list(_split(text, length, max_length, 0))


def _split(text: str, length: Callable[[str], int], max_length: int, level: int) -> Iterator[str]:
    if length(text) <= max_length or len(text) < 2:
        yield text
        return
    if level == len(BOUNDARIES):
        middle = len(text) // 2
        yield from _split(text[:middle], length, max_length, level)
        yield from _split(text[middle:], length, max_length, level)
        return
    part, size = "", 0
    for piece in _split_after(text, BOUNDARIES[level]):
        piece_length = length(piece)
        if size + piece_length <= max_length:
            part, size = part + piece, size + piece_length
            continue
        if part:
            yield part
        part, size = (piece, piece_length) if piece_length <= max_length else ("", 0)
        if not part:
            yield from _split(piece, length, max_length, level + 1)
    if part:
        yield part


def _split_after(text: str, boundary: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in boundary.finditer(text):
        if start < match.end() < len(text):
            yield text[start : match.end()]
            start = match.end()
    yield text[start:]
