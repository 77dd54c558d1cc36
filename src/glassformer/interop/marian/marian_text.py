"""Marian's text files: options in the flat YAML that it writes, and vocabularies, which are YAML, JSON or plain lines.

Only what Marian writes is read; anything else is refused with its line, since a guess would be a wrong model.
"""

import re
from collections.abc import Iterable
from typing import Any

from glassformer.data.json_tables import TableError, check_end, numbered, start_of
from glassformer.errors import DirectoryError
from glassformer.interop.bounded_files import SPARE, read_lines

LARGEST_OPTIONS = 1_000_000
"""Bytes."""
MOST_WORDS = 10**6
"""Of a vocabulary."""
KEY = re.compile(r"([A-Za-z0-9_][\w.-]*):(?:\s+(.*))?")
ITEM = re.compile(r"-(?:\s+(.*))?")
REMARK = re.compile(r"(^|\s)#.*")
INTEGER = re.compile(r"[+-]?\d{1,18}")
NUMBER = re.compile(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})([eE][+-]?\d{1,3})?")
SINGLE, DOUBLE = re.compile(r"'((?:[^']|'')*)'"), re.compile(r'"((?:[^"\\]|\\.)*)"')
WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"} | {
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"
}  # fmt: skip


class _StrangeError(ValueError):
    """Something that Marian does not write."""


def read_options(raw: bytes, where: str) -> dict[str, Any]:
    """The options of `special:model.yml`, or of a file that Marian's decoder is configured with."""
    if len(raw) > LARGEST_OPTIONS:
        raise DirectoryError(f"{where} has {len(raw):,} bytes, more than any options take.")
    found: dict[str, Any] = {}
    last = None
    for number, line in enumerate(_text(raw, where).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#") or text in ("---", "..."):
            continue
        try:
            last = _take(found, last, text, indented=line[:1] in (" ", "\t"))
        except _StrangeError as error:
            raise DirectoryError(
                f"{where}, line {number}: {error}; flat options, as Marian writes them, are read."
            ) from None
    return found


def read_vocabulary(raw: bytes, where: str, size: int = MOST_WORDS) -> dict[str, int]:
    """The number of each word, from a vocabulary in YAML or JSON (word: number) or with one word a line; for a model of
    so many tokens."""
    raw, most = raw.rstrip(b"\0"), size + SPARE
    if raw.count(b"\n") > 2 * most:  # a long word takes two lines
        raise DirectoryError(f"{where} has {raw.count(10):,} lines, more than a model of {size:,} tokens has words.")
    if raw.lstrip().startswith(b"{"):
        numbers = _json(raw, where, most)
    elif re.match(rb"[^\n]*:[ \t]*\d+[ \t]*\r?\n", raw) or raw.startswith(b"? "):
        numbers = _yaml(read_lines(raw, where), where)
    else:
        words = read_lines(raw.rstrip(b"\n") + b"\n", where)
        numbers = {word.rstrip("\r"): number for number, word in enumerate(words)}
    if len(set(numbers.values())) < len(numbers) or any(number < 0 for number in numbers.values()):
        raise DirectoryError(f"{where} gives two words the same number, or one a number below 0.")
    return numbers


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise DirectoryError(f"{where} is not UTF-8 (byte {error.start:,}).") from None


def _take(found: dict[str, Any], last: str | None, text: str, indented: bool) -> str:
    """One line into the options; gives the key that it belongs to."""
    if last is not None and (item := ITEM.fullmatch(text)):
        found[last] = [] if found[last] is None else found[last]
        if not isinstance(found[last], list):
            raise _StrangeError(f"{last!r} has a value and a list")
        found[last].append(_value(item[1] or ""))
        return last
    if indented:
        if last is None or found[last] is not None:
            raise _StrangeError(f"{text[:60]!r} belongs to no option")
        found[last] = _value(text)
        return last
    key = KEY.fullmatch(text)
    if key is None:
        raise _StrangeError(f"{text[:60]!r} is no `name: value`")
    if key[1] in found:
        raise _StrangeError(f"{key[1]!r} is given twice")
    found[key[1]] = _value(key[2] or "")
    return key[1]


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("["):
        inner = text.removeprefix("[").removesuffix("]").strip()
        if not text.endswith("]") or any(sign in inner for sign in "[]{}\"'"):
            raise _StrangeError(f"{text[:60]!r} is no simple list")
        return [_value(part) for part in inner.split(",")] if inner else []
    if text[:1] in ("'", '"'):
        return _quoted(text if text.endswith(text[0]) else REMARK.sub("", text).rstrip())
    text = REMARK.sub("", text).rstrip()
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text)
    if text[0] in "{}&*!|>%@`?" or re.search(r":(\s|$)", text):
        raise _StrangeError(f"{text[:60]!r} is no plain value")
    return text


def _quoted(text: str) -> str:
    if match := SINGLE.fullmatch(text):
        return match[1].replace("''", "'")
    if match := DOUBLE.fullmatch(text):
        return ESCAPE.sub(_unescaped, match[1])
    raise _StrangeError(f"{text[:60]!r} begins with a quotation mark and does not end with it")


def _unescaped(escape: re.Match[str]) -> str:
    sign = escape[1]
    if len(sign) > 1:
        code = int(sign[1:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise _StrangeError(f"{escape[0]} is no character")
        return chr(code)
    return ESCAPED.get(sign, sign)


def _json(raw: bytes, where: str, most: int) -> dict[str, int]:
    try:
        found, end = numbered(raw, start_of(raw), most)
        check_end(raw, end)
    except TableError as error:
        raise DirectoryError(
            f"{where} is not readable as a vocabulary: JSON must give each word a number, and {error}."
        ) from None
    return found


def _yaml(lines: Iterable[str], where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    key: str | None = None
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r")
        if not line or line == "---" or (line.startswith("#") and ":" not in line):
            continue
        if line.startswith("? ") and not re.search(r":[ \t]*\d+[ \t]*$", line):  # a long word has its number below
            key = line[2:]
            continue
        word, colon, value = (key, ":", line.removeprefix(":")) if key is not None else line.rpartition(":")
        key = None
        word = word.rstrip() if word[:1] in ("'", '"') else word
        try:
            plain = _quoted(word) if word[:1] in ("'", '"') and len(word) > 1 else word
        except _StrangeError as error:
            raise DirectoryError(f"{where}, line {number}: {error}.") from None
        if not colon or not re.fullmatch(r"\s*\d{1,9}\s*", value) or plain in found:
            raise DirectoryError(f"{where}, line {number}: {line[:60]!r} is no `word: number`, or the word's second.")
        found[plain] = int(value)
    return found
