"""SentencePiece's table of normal forms (`precompiled_charsmap`), applied to what one sees as one letter.

The table is a trie in one array (Darts) and the texts that its leaves point to. Where SentencePiece itself looks for
the longest entry, `tokenizers` asks for each letter with its accents; so it is done here, as the models' users have it.
"""

import base64
import binascii
import functools
import unicodedata
from array import array
from collections.abc import Iterator

from glassformer.errors import DataError

SHORT = 6
"""Bytes: a letter with its accents is looked up whole if it has fewer."""
ALSO_JOINED = {0x200C, 0x200D, 0x0E33, 0x0EB3, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)}
"""Belong to the letter before them, beside the marks (M)."""
APART = {0x102B, 0x102C, 0x1038, *range(0x1062, 0x1065), *range(0x1067, 0x106E), 0x1083, *range(0x1087, 0x108D), 0x108F}
APART |= {*range(0x109A, 0x109D), 0x1A61, 0x1A63, 0x1A64, 0xAA7B, 0xAA7D, 0x11720, 0x11721}
"""Marks that do not."""
BEFORE = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD}
"""Belong to the letter behind them."""


class CharsMap:
    """Text to its normal form."""

    def __init__(self, coded: str) -> None:
        try:
            content = base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            raise DataError("its precompiled_charsmap is not base 64.") from None
        size = int.from_bytes(content[:4], "little")
        if len(content) < 4 or size % 4 or not 4 <= size <= len(content) - 4:
            raise DataError("its precompiled_charsmap does not have the size that it says.")
        self._units = array("I", content[4 : 4 + size])
        self._texts = content[4 + size :]
        self._known = functools.lru_cache(maxsize=65536)(self._looked_up)

    def __call__(self, text: str) -> str:
        return "".join(self._whole(letter) for letter in letters(text))

    def _whole(self, letter: str) -> str:
        if len(letter.encode()) < SHORT and (found := self._known(letter)) is not None:
            return found
        return "".join(one if (found := self._known(one)) is None else found for one in letter)

    def _looked_up(self, text: str) -> str | None:
        """What stands for the shortest beginning of a text that is in the table."""
        units, place = self._units, 0
        place ^= _offset(units[0])
        for byte in text.encode():
            place ^= byte
            if byte == 0 or place >= len(units) or units[place] & 0x800000FF != byte:
                return None
            unit = units[place]
            place ^= _offset(unit)
            if unit >> 8 & 1:
                first = units[place] & 0x7FFFFFFF if place < len(units) else len(self._texts)
                end = self._texts.find(b"\0", first)
                return self._texts[first : end if end >= 0 else None].decode(errors="replace")
        return None


def letters(text: str) -> Iterator[str]:
    """What one sees as one letter: with its accents, and a line's end as one. (Flags, families and syllables of Hangul
    have more bytes than are looked up whole, so that it does not matter that they are taken apart.)"""
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or not _belong(text[place - 1], text[place]):
            yield text[start:place]
            start = place


def _belong(one: str, other: str) -> bool:
    if one == "\r" or _ends(one):
        return one == "\r" and other == "\n"
    return _joined(other) or (ord(one) in BEFORE and not _ends(other))


def _joined(letter: str) -> bool:
    if letter < "\u0300":
        return False
    code = ord(letter)
    return code in ALSO_JOINED or (unicodedata.category(letter)[0] == "M" and code not in APART)


def _ends(letter: str) -> bool:
    """A control character is alone."""
    code = ord(letter)
    return unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") and code not in ALSO_JOINED and code not in BEFORE


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 0x200) >> 6)
