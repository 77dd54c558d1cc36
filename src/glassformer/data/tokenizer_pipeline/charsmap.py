"""SentencePiece's `precompiled_charsmap` normalizer, applied per grapheme as Hugging Face's `tokenizers` does.

The charsmap is a double-array trie (Darts) and the replacement strings its leaves point to. SentencePiece itself looks
for the longest match, `tokenizers` looks up each grapheme; this does the same as `tokenizers`, the library that
these models are used with.
"""

import base64
import binascii
import functools
import unicodedata
from array import array
from collections.abc import Iterator

from glassformer.errors import DataError

WHOLE_LOOKUP_BYTES = 6
"""Graphemes of fewer bytes than this are first looked up as a whole."""
OTHER_EXTENDERS = {0x200C, 0x200D, 0x0E33, 0x0EB3, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)}
"""Characters besides the marks (category M) that extend the grapheme before them."""
NON_EXTENDERS = {0x102B, 0x102C, 0x1038, *range(0x1062, 0x1065), *range(0x1067, 0x106E), 0x1083, *range(0x1087, 0x108D)}
NON_EXTENDERS |= {0x108F, *range(0x109A, 0x109D), 0x1A61, 0x1A63, 0x1A64, 0xAA7B, 0xAA7D, 0x11720, 0x11721}
"""Marks (category M) that do not extend the grapheme before them."""
PREPENDERS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD}
"""Characters (code points) that belong to the grapheme after them."""


class CharsMap:
    """SentencePiece's `precompiled_charsmap` as a function: replaces characters of a text by a table."""

    def __init__(self, encoded: str) -> None:
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise DataError("the precompiled_charsmap is not valid base 64.") from None
        size = int.from_bytes(content[:4], "little")
        if len(content) < 4 or size % 4 or not 4 <= size <= len(content) - 4:
            raise DataError("the precompiled_charsmap does not have the size that it declares.")
        self._units = array("I", content[4 : 4 + size])
        self._replacements = content[4 + size :]
        self._cached_lookup = functools.lru_cache(maxsize=65536)(self._lookup)

    def __call__(self, text: str) -> str:
        return "".join(replacement for grapheme in graphemes(text) for _, replacement in self._normalize(grapheme))

    def leading_characters(self, text: str) -> int:
        """The number of characters at the start of the normalised text that stand for the first one of the text.

        "´" is normalised to a space and an accent, "ﷺ" to four words. What is removed before them is not counted, as
        in `tokenizers`.
        """
        for grapheme in graphemes(text):
            for part, replacement in self._normalize(grapheme):
                if replacement:
                    return len(replacement) if len(part) == 1 else 1
        return 0

    def _normalize(self, grapheme: str) -> list[tuple[str, str]]:
        """The parts of a grapheme that are replaced as one, with their replacements."""
        if len(grapheme.encode()) < WHOLE_LOOKUP_BYTES and (replacement := self._cached_lookup(grapheme)) is not None:
            return [(grapheme, replacement)]
        return [
            (character, character if (replacement := self._cached_lookup(character)) is None else replacement)
            for character in grapheme
        ]

    def _lookup(self, text: str) -> str | None:
        """The replacement for the shortest prefix of a text that is in the charsmap; None if no prefix is."""
        units, index = self._units, 0
        index ^= _offset(units[0])
        for byte in text.encode():
            index ^= byte
            if byte == 0 or index >= len(units) or units[index] & 0x800000FF != byte:
                return None
            unit = units[index]
            index ^= _offset(unit)
            if unit >> 8 & 1:
                start = units[index] & 0x7FFFFFFF if index < len(units) else len(self._replacements)
                end = self._replacements.find(b"\0", start)
                return self._replacements[start : end if end >= 0 else None].decode(errors="replace")
        return None


def graphemes(text: str) -> Iterator[str]:
    """The grapheme clusters of a text: characters with their accents, and \\r\\n as one.

    Flags, emoji sequences and Hangul syllables are split, which makes no difference: they have more bytes than are
    looked up as a whole.
    """
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not _same_grapheme(text[index - 1], text[index]):
            yield text[start:index]
            start = index


def _same_grapheme(left: str, right: str) -> bool:
    if left == "\r" or _is_control(left):
        return left == "\r" and right == "\n"
    return _is_extender(right) or (ord(left) in PREPENDERS and not _is_control(right))


def _is_extender(character: str) -> bool:
    if character < "\u0300":
        return False
    code = ord(character)
    return code in OTHER_EXTENDERS or (unicodedata.category(character)[0] == "M" and code not in NON_EXTENDERS)


def _is_control(character: str) -> bool:
    """Whether the character is a grapheme of its own, as control characters are."""
    code = ord(character)
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Zl", "Zp") and code not in OTHER_EXTENDERS and code not in PREPENDERS


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 0x200) >> 6)
