"""Streaming readers for large JSON tables: the id of each piece, its score, the merges.

`json.loads` builds all objects of a file before anything can be checked: up to 25 times the file's size. Here, a table
is read entry by entry, up to its maximum number of entries, and the first malformed entry is an error.
"""

import json
import re
import reprlib
from array import array
from collections.abc import Callable, Mapping
from typing import TypeVar

Number = TypeVar("Number", int, float)

MAX_PIECE_CHARACTERS = 1000
"""Maximum length of a piece, more than in any tokenizer. Escaped, a piece may take six times as many bytes."""
MAX_NESTING_DEPTH = 50

_INNER = rb'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_TEXT, _NUMBER, _SPACE = rb'"(' + _INNER + rb')"', rb"(-?\d{1,20}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?)", rb"[ \t\r\n]*+"
_KEY = re.compile(_SPACE + _TEXT + _SPACE + rb":" + _SPACE)
_SCALAR = re.compile(rb'"' + _INNER + rb'"|[^\s,:"\[\]{}]+')
_NO_BRACKETS = re.compile(rb'[^"\[\]{}]*+(?:"' + _INNER + rb'"[^"\[\]{}]*+)*+')
_NEXT = {bracket: re.compile(_SPACE + rb"([," + re.escape(bracket) + rb"])") for bracket in (b"}", b"]")}
_EMPTY = {bracket: re.compile(_SPACE + re.escape(bracket)) for bracket in (b"}", b"]")}
_ID_ENTRY = re.compile(_KEY.pattern + rb"(\d{1,10})" + _SPACE + rb"([,}])")
_SCORE_ENTRY = re.compile(_SPACE.join((b"", rb"\[", _TEXT, b",", _NUMBER, rb"\]", rb"([,\]])")))
_PAIR_ENTRY = re.compile(_SPACE.join((b"", rb"\[", _TEXT, b",", _TEXT, rb"\]", rb"([,\]])")))
_STRING_ENTRY = re.compile(_SPACE + _TEXT + _SPACE + rb"([,\]])")
_BLANK = re.compile(_SPACE)


class TableError(ValueError):
    """A malformed JSON table. The message is a clause, to be put into a sentence about the file."""


def value_start(content: bytes, at: int = 0) -> int:
    """The offset at which the next JSON value begins, after whitespace."""
    blank = _BLANK.match(content, at)
    assert blank is not None  # the empty match is always possible
    return blank.end()


def check_end(content: bytes, at: int) -> None:
    """Refuse anything but whitespace after the file's JSON value."""
    if value_start(content, at) < len(content):
        raise TableError("there is extra data after its end")


def read_id_table(content: bytes, at: int, max_entries: int) -> tuple[dict[str, int], int]:
    """Read {"piece": 5, ...} from its opening bracket; returns the ids and the offset of the table's end."""
    ids: dict[str, int] = {}
    return ids, _read_entries(content, at, b"{}", (_ID_ENTRY,), max_entries, lambda entry: _add(ids, entry, int))


def read_score_table(content: bytes, at: int, max_entries: int) -> tuple[dict[str, float], int]:
    """Read [["piece", -1.5], ...] from its opening bracket; returns the scores in order and the offset of its end."""
    scores: dict[str, float] = {}
    return scores, _read_entries(
        content, at, b"[]", (_SCORE_ENTRY,), max_entries, lambda entry: _add(scores, entry, float)
    )


def read_string_list(content: bytes, at: int, max_entries: int) -> tuple[list[str], int]:
    """Read ["piece", ...] from its opening bracket; returns the strings and the offset of the list's end."""
    strings: list[str] = []
    return strings, _read_entries(
        content, at, b"[]", (_STRING_ENTRY,), max_entries, lambda entry: strings.append(decode_string(entry[1]))
    )


def read_merge_table(content: bytes, at: int, max_entries: int, ids: Mapping[str, int]) -> tuple["array[int]", int]:
    """Read [["a", "b"], ...] or ["a b", ...]; returns the merges as id(a) · 2³² + id(b), and the offset of its end."""
    merges = array("Q")

    def add(entry: re.Match[bytes]) -> None:
        strings = [decode_string(part) for part in entry.groups()[:-1]]
        left, right = strings if len(strings) == 2 else _split_pair(strings[0])
        if left not in ids or right not in ids or left + right not in ids:
            raise TableError(
                f"it merges {reprlib.repr(left)} and {reprlib.repr(right)}, but these or the result are not in the "
                "vocabulary"
            )
        merges.append(ids[left] << 32 | ids[right])

    return merges, _read_entries(content, at, b"[]", (_PAIR_ENTRY, _STRING_ENTRY), max_entries, add)


def read_members(content: bytes, at: int, read_value: Callable[[str, int], int]) -> int:
    """Read the members of an object from its opening bracket, and return the offset of its end.

    `read_value` is called with each member's name and the offset of its value, and returns the offset of the value's
    end.
    """
    if content[at : at + 1] != b"{":
        raise TableError(f"expected an object at byte {at:,}")
    at += 1
    if empty := _EMPTY[b"}"].match(content, at):
        return empty.end()
    while key := _KEY.match(content, at):
        end = _NEXT[b"}"].match(content, read_value(decode_string(key[1]), key.end()))
        if end is None:
            raise TableError(f"expected a comma or a closing bracket after {reprlib.repr(decode_string(key[1]))}")
        at = end.end()
        if end[1] == b"}":
            return at
    raise TableError(f"expected a name at byte {at:,}")


def skip_value(content: bytes, at: int, max_bytes: int) -> int:
    """The offset of the end of the value that begins here, which may have at most `max_bytes` bytes."""
    start, depth = at, 0
    if content[at : at + 1] not in (b"[", b"{"):
        scalar = _SCALAR.match(content, at)
        if scalar is None:
            raise TableError(f"expected a value at byte {at:,}")
        return scalar.end()
    while True:
        skipped = _NO_BRACKETS.match(content, at)
        assert skipped is not None  # the empty match is always possible
        at = skipped.end()
        bracket = content[at : at + 1]
        if not bracket or bracket == b'"':
            raise TableError(f"the value that begins at byte {start:,} does not end")
        depth += 1 if bracket in (b"[", b"{") else -1
        at += 1
        if depth > MAX_NESTING_DEPTH:
            raise TableError("it is nested too deeply")
        if at - start > max_bytes:
            raise TableError(f"the value that begins at byte {start:,} has more than {max_bytes:,} bytes")
        if depth == 0:
            return at


def decode_string(raw: bytes) -> str:
    """The string between two quotation marks, unescaped."""
    if len(raw) > 6 * MAX_PIECE_CHARACTERS:
        raise TableError(f"it has a piece of {len(raw):,} bytes, longer than in any tokenizer")
    try:
        if b"\\" in raw:
            text = str(json.loads(b'"' + raw + b'"'))
            text.encode()
        else:
            text = raw.decode()
    except UnicodeEncodeError:
        raise TableError("it contains an unpaired surrogate, which is not a valid character") from None
    except ValueError:
        raise TableError(f"{reprlib.repr(raw)} is not a UTF-8 string") from None
    if len(text) > MAX_PIECE_CHARACTERS:
        raise TableError(f"it has a piece of {len(text):,} characters, longer than in any tokenizer")
    return text


def _add(table: dict[str, Number], entry: re.Match[bytes], parse: Callable[[bytes], Number]) -> None:
    piece = decode_string(entry[1])
    if piece in table:
        raise TableError(f"{reprlib.repr(piece)} is given twice")
    table[piece] = parse(entry[2])


def _read_entries(
    content: bytes,
    at: int,
    brackets: bytes,
    patterns: tuple[re.Pattern[bytes], ...],
    max_entries: int,
    add: Callable[[re.Match[bytes]], None],
) -> int:
    """Read a table whose entries all match one of the patterns, and return the offset of its end."""
    opening, closing = brackets[:1], brackets[1:]
    if content[at : at + 1] != opening:
        raise TableError(f"expected a table at byte {at:,}, starting with {opening.decode()}")
    at += 1
    if empty := _EMPTY[closing].match(content, at):
        return empty.end()
    pattern = next((pattern for pattern in patterns if pattern.match(content, at)), patterns[0])
    count = 0
    while entry := pattern.match(content, at):
        count += 1
        if count > max_entries:
            raise TableError(f"it has more than {max_entries:,} entries in a table, too many for this model")
        add(entry)
        at = entry.end()
        if entry.group(entry.re.groups) == closing:
            return at
    raise TableError(f"expected an entry at byte {at:,}, of the same form as the others of its table")


def _split_pair(pair: str) -> tuple[str, str]:
    left, space, right = pair.partition(" ")
    if not space or " " in right:
        raise TableError(f"{reprlib.repr(pair)} is not two pieces separated by a space")
    return left, right
