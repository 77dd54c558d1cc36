"""Long tables in JSON, read entry by entry: the number of each piece, its score, the pairs that are merged.

`json.loads` makes an object of whatever a file holds before anybody can look: up to 25 times the file's size. Here a
table is read up to the number of entries that it may have, and what is no entry ends it.
"""

import json
import re
import reprlib
from array import array
from collections.abc import Callable, Mapping
from typing import TypeVar

Number = TypeVar("Number", int, float)

LONGEST_PIECE = 1000
"""Letters, which no piece of any tokenizer has; the bytes of a piece may be six times as many, each escaped."""
DEEPEST = 50
"""Brackets within brackets."""

_INNER = rb'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_TEXT, _NUMBER, _SPACE = rb'"(' + _INNER + rb')"', rb"(-?\d{1,20}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?)", rb"[ \t\r\n]*+"
_KEY = re.compile(_SPACE + _TEXT + _SPACE + rb":" + _SPACE)
_VALUE = re.compile(rb'"' + _INNER + rb'"|[^\s,:"\[\]{}]+')
_OTHERS = re.compile(rb'[^"\[\]{}]*+(?:"' + _INNER + rb'"[^"\[\]{}]*+)*+')
_NEXT = {sign: re.compile(_SPACE + rb"([," + re.escape(sign) + rb"])") for sign in (b"}", b"]")}
_EMPTY = {sign: re.compile(_SPACE + re.escape(sign)) for sign in (b"}", b"]")}
_NUMBERED = re.compile(_KEY.pattern + rb"(\d{1,10})" + _SPACE + rb"([,}])")
_SCORED = re.compile(
    _SPACE + rb"\[" + _SPACE + _TEXT + _SPACE + rb"," + _SPACE + _NUMBER + _SPACE + rb"\]" + _SPACE + rb"([,\]])"
)
_PAIRED = re.compile(
    _SPACE + rb"\[" + _SPACE + _TEXT + _SPACE + rb"," + _SPACE + _TEXT + _SPACE + rb"\]" + _SPACE + rb"([,\]])"
)
_SPACED = re.compile(_SPACE + _TEXT + _SPACE + rb"([,\]])")
_BLANK = re.compile(_SPACE)


class TableError(ValueError):
    """What is no such table: the end of a sentence about the file."""


def start_of(content: bytes) -> int:
    """Where a file's one value begins."""
    return _blank(content, 0)


def check_end(content: bytes, at: int) -> None:
    """A file has one value: behind it there may be blanks."""
    if _blank(content, at) < len(content):
        raise TableError("something stands behind its end")


def numbered(content: bytes, at: int, most: int) -> tuple[dict[str, int], int]:
    """{"piece": 5, ...} from its bracket on, and where it ends."""
    found: dict[str, int] = {}
    return found, _each(content, at, b"{}", (_NUMBERED,), most, lambda entry: _give(found, entry, int))


def scored(content: bytes, at: int, most: int) -> tuple[dict[str, float], int]:
    """[["piece", -1.5], ...] from its bracket on, in the same order, and where it ends."""
    found: dict[str, float] = {}
    return found, _each(content, at, b"[]", (_SCORED,), most, lambda entry: _give(found, entry, float))


def listed(content: bytes, at: int, most: int) -> tuple[list[str], int]:
    """["piece", ...] from its bracket on, and where it ends."""
    found: list[str] = []
    return found, _each(content, at, b"[]", (_SPACED,), most, lambda entry: found.append(text_of(entry[1])))


def paired(content: bytes, at: int, most: int, numbers: Mapping[str, int]) -> tuple["array[int]", int]:
    """[["a", "b"], ...] or ["a b", ...] as the numbers of both, a · 2³² + b, and where it ends."""
    found = array("Q")

    def take(entry: re.Match[bytes]) -> None:
        both = [text_of(part) for part in entry.groups()[:-1]]
        one, other = both if len(both) == 2 else _halves(both[0])
        if one not in numbers or other not in numbers or one + other not in numbers:
            raise TableError(
                f"it merges {reprlib.repr(one)} and {reprlib.repr(other)}, which are not pieces, or their sum is none"
            )
        found.append(numbers[one] << 32 | numbers[other])

    return found, _each(content, at, b"[]", (_PAIRED, _SPACED), most, take)


def members(content: bytes, at: int, take: Callable[[str, int], int]) -> int:
    """Each member of an object from its bracket on: `take` gets its name and where its value begins, and says where
    that ends. Says where the object ends."""
    if content[at : at + 1] != b"{":
        raise TableError(f"byte {at:,} is where an object should begin")
    at += 1
    if empty := _EMPTY[b"}"].match(content, at):
        return empty.end()
    while True:
        key = _KEY.match(content, at)
        if key is None:
            raise TableError(f"byte {at:,} is where a name should stand")
        end = _NEXT[b"}"].match(content, take(text_of(key[1]), key.end()))
        if end is None:
            raise TableError(f"behind {reprlib.repr(text_of(key[1]))} comes no comma and no bracket")
        if end[1] == b"}":
            return end.end()
        at = end.end()


def passed_over(content: bytes, at: int, most: int) -> int:
    """Where the value ends that begins here; it may have `most` bytes."""
    start, depth = at, 0
    if content[at : at + 1] not in (b"[", b"{"):
        value = _VALUE.match(content, at)
        if value is None:
            raise TableError(f"byte {at:,} is where a value should stand")
        return value.end()
    while True:
        others = _OTHERS.match(content, at)
        assert others is not None  # it matches nothing, too
        at = others.end()
        sign = content[at : at + 1]
        if not sign or sign == b'"':
            raise TableError(f"what begins at byte {start:,} does not end")
        depth += 1 if sign in (b"[", b"{") else -1
        at += 1
        if depth > DEEPEST:
            raise TableError("it is nested too deeply")
        if at - start > most:
            raise TableError(f"what begins at byte {start:,} has more than {most:,} bytes")
        if depth == 0:
            return at


def text_of(raw: bytes) -> str:
    """What stands between two quotation marks."""
    if len(raw) > 6 * LONGEST_PIECE:
        raise TableError(f"it has a piece of {len(raw):,} bytes, which no tokenizer has")
    try:
        if b"\\" in raw:
            text = str(json.loads(b'"' + raw + b'"'))
            text.encode()
        else:
            text = raw.decode()
    except UnicodeEncodeError:
        raise TableError("it has half of a surrogate pair, which is no character") from None
    except ValueError:
        raise TableError(f"{reprlib.repr(raw)} is no text in UTF-8") from None
    if len(text) > LONGEST_PIECE:
        raise TableError(f"it has a piece of {len(text):,} letters, which no tokenizer has")
    return text


def _blank(content: bytes, at: int) -> int:
    blank = _BLANK.match(content, at)
    assert blank is not None  # it matches nothing, too
    return blank.end()


def _give(found: dict[str, Number], entry: re.Match[bytes], read: Callable[[bytes], Number]) -> None:
    piece = text_of(entry[1])
    if piece in found:
        raise TableError(f"{reprlib.repr(piece)} is given twice")
    found[piece] = read(entry[2])


def _each(
    content: bytes,
    at: int,
    brackets: bytes,
    kinds: tuple[re.Pattern[bytes], ...],
    most: int,
    take: Callable[[re.Match[bytes]], None],
) -> int:
    first, last = brackets[:1], brackets[1:]
    if content[at : at + 1] != first:
        raise TableError(f"byte {at:,} is where a table should begin, with {first.decode()}")
    at += 1
    if empty := _EMPTY[last].match(content, at):
        return empty.end()
    kind = next((kind for kind in kinds if kind.match(content, at)), kinds[0])
    count = 0
    while entry := kind.match(content, at):
        count += 1
        if count > most:
            raise TableError(f"it has more than {most:,} entries in a table, which this model has no use for")
        take(entry)
        at = entry.end()
        if entry.group(entry.re.groups) == last:
            return at
    raise TableError(f"byte {at:,} is where an entry should stand, as all others of its table")


def _halves(both: str) -> tuple[str, str]:
    one, space, other = both.partition(" ")
    if not space or " " in other:
        raise TableError(f"{reprlib.repr(both)} is not two pieces with a space between them")
    return one, other
