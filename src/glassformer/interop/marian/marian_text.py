"""Parsers for Marian's text files: options in flat YAML, and vocabularies in YAML, JSON or plain lines.

Only what Marian writes is accepted; anything else is an error with its line, since a guess would give a wrong model.
"""

import re
from collections.abc import Iterable
from typing import Any

from glassformer.data.json_streaming import TableError, check_end, read_id_table, value_start
from glassformer.errors import DirectoryError
from glassformer.interop.bounded_files import EXTRA_PIECES, read_lines

MAX_OPTIONS_BYTES = 1_000_000
MAX_WORDS = 10**6
"""Maximum number of words of a vocabulary, if the size of the model is not given."""
KEY = re.compile(r"([A-Za-z0-9_][\w.-]*):(?:\s+(.*))?")
ITEM = re.compile(r"-(?:\s+(.*))?")
COMMENT = re.compile(r"(^|\s)#.*")
ID_AT_END = re.compile(r":[ \t]*\d+[ \t]*$")
INTEGER = re.compile(r"[+-]?\d{1,18}")
NUMBER = re.compile(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})([eE][+-]?\d{1,3})?")
SINGLE, DOUBLE = re.compile(r"'((?:[^']|'')*)'"), re.compile(r'"((?:[^"\\]|\\.)*)"')
CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"} | {
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"
}  # fmt: skip


class _SyntaxError(ValueError):
    """Raised for YAML syntax that Marian does not write."""


def read_options(raw: bytes, where: str) -> dict[str, Any]:
    """Parse the options in `special:model.yml` or in a configuration file of Marian's decoder."""
    if len(raw) > MAX_OPTIONS_BYTES:
        raise DirectoryError(f"{where} has {len(raw):,} bytes, too many for options.")
    try:
        lines = raw.rstrip(b"\0").decode().splitlines()
    except UnicodeDecodeError as error:
        raise DirectoryError(f"{where} is not UTF-8 (byte {error.start:,}).") from None
    options: dict[str, Any] = {}
    last = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#") or text in ("---", "..."):
            continue
        try:
            last = _add_line(options, last, text, indented=line[:1] in (" ", "\t"))
        except _SyntaxError as error:
            raise DirectoryError(
                f"{where}, line {number}: {error}; only flat options, as Marian writes them, are supported."
            ) from None
    return options


def read_vocabulary(raw: bytes, where: str, size: int = MAX_WORDS) -> dict[str, int]:
    """Parse a vocabulary, YAML or JSON (word: id) or one word per line, of a model of `size` tokens: word to id."""
    raw, limit = raw.rstrip(b"\0"), size + EXTRA_PIECES
    if raw.count(b"\n") > 2 * limit:  # a long word takes two lines
        raise DirectoryError(f"{where} has {raw.count(10):,} lines, too many for a model of {size:,} tokens.")
    if raw.lstrip().startswith(b"{"):
        ids = _json(raw, where, limit)
    elif re.match(rb"[^\n]*:[ \t]*\d+[ \t]*\r?\n", raw) or raw.startswith(b"? "):
        ids = _yaml(read_lines(raw, where), where)
    else:
        words = read_lines(raw.rstrip(b"\n") + b"\n", where)
        ids = {word.rstrip("\r"): i for i, word in enumerate(words)}
    if len(set(ids.values())) < len(ids) or any(i < 0 for i in ids.values()):
        raise DirectoryError(f"{where} gives two words the same id, or one a negative id.")
    return ids


def _add_line(options: dict[str, Any], last: str | None, text: str, indented: bool) -> str:
    """Parse one line of YAML into the options; returns the key that it belongs to."""
    if last is not None and (item := ITEM.fullmatch(text)):
        options[last] = [] if options[last] is None else options[last]
        if not isinstance(options[last], list):
            raise _SyntaxError(f"{last!r} has both a value and a list")
        options[last].append(_value(item[1] or ""))
        return last
    if indented:
        if last is None or options[last] is not None:
            raise _SyntaxError(f"{text[:60]!r} belongs to no option")
        options[last] = _value(text)
        return last
    key = KEY.fullmatch(text)
    if key is None:
        raise _SyntaxError(f"{text[:60]!r} is not `name: value`")
    if key[1] in options:
        raise _SyntaxError(f"{key[1]!r} is given twice")
    options[key[1]] = _value(key[2] or "")
    return key[1]


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("["):
        inner = text.removeprefix("[").removesuffix("]").strip()
        if not text.endswith("]") or any(sign in inner for sign in "[]{}\"'"):
            raise _SyntaxError(f"{text[:60]!r} is not a simple list")
        return [_value(part) for part in inner.split(",")] if inner else []
    if text[:1] in ("'", '"'):
        return _quoted(text if text.endswith(text[0]) else COMMENT.sub("", text).rstrip())
    text = COMMENT.sub("", text).rstrip()
    if text in CONSTANTS:
        return CONSTANTS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text)
    if text[0] in "{}&*!|>%@`?" or re.search(r":(\s|$)", text):
        raise _SyntaxError(f"{text[:60]!r} is not a plain value")
    return text


def _quoted(text: str) -> str:
    if match := SINGLE.fullmatch(text):
        return match[1].replace("''", "'")
    if match := DOUBLE.fullmatch(text):
        return ESCAPE.sub(_unescaped, match[1])
    raise _SyntaxError(f"{text[:60]!r} has no closing quotation mark")


def _unescaped(escape: re.Match[str]) -> str:
    sign = escape[1]
    if len(sign) > 1:
        code = int(sign[1:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise _SyntaxError(f"{escape[0]} is not a character")
        return chr(code)
    return ESCAPED.get(sign, sign)


def _json(raw: bytes, where: str, limit: int) -> dict[str, int]:
    try:
        ids, end = read_id_table(raw, value_start(raw), limit)
        check_end(raw, end)
    except TableError as error:
        raise DirectoryError(
            f"{where} is not a readable vocabulary: JSON must map each word to an id, but {error}."
        ) from None
    return ids


def _yaml(lines: Iterable[str], where: str) -> dict[str, int]:
    ids: dict[str, int] = {}
    key: str | None = None
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r")
        if not line or line == "---" or (line.startswith("#") and ":" not in line):
            continue
        if line.startswith("? ") and not ID_AT_END.search(line):  # the id of a long word is on the next line
            key = line[2:]
            continue
        word, colon, value = (key, ":", line.removeprefix(":")) if key is not None else line.rpartition(":")
        key = None
        word = word.rstrip() if word[:1] in ("'", '"') else word
        try:
            plain = _quoted(word) if word[:1] in ("'", '"') and len(word) > 1 else word
        except _SyntaxError as error:
            raise DirectoryError(f"{where}, line {number}: {error}.") from None
        if not colon or not re.fullmatch(r"[ \t]*[0-9]{1,9}[ \t]*", value) or plain in ids:
            raise DirectoryError(f"{where}, line {number}: {line[:60]!r} is not `word: id`, or repeats a word.")
        ids[plain] = int(value)
    return ids
