"""Ways of cutting text into pieces that models from elsewhere were trained with, and of joining pieces again.

A cutter knows pieces, never their numbers.
"""

import functools
import itertools
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import sentencepiece

from glassformer.errors import DataError

Cut = Literal["sentencepiece", "byte-level", "subword-nmt", "words", "pipeline"]
"""The last is what a `tokenizer.json` describes: see `pipeline`."""
SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's spaces, for a set of `re`, whose own \\s has four more."""


class Segmenter(Protocol):
    """Text to pieces and back."""

    def cut(self, text: str) -> list[str]: ...

    def join(self, pieces: Sequence[str]) -> str: ...


class SentencePieceSegmenter:
    """As SentencePiece's model does it, with its own normalisation."""

    def __init__(self, model: bytes) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self.size: int = self._processor.vocab_size()
        except (RuntimeError, ValueError) as error:
            raise DataError(f"the SentencePiece model cannot be opened ({str(error).splitlines()[0]}).") from None
        if not self.size:  # no bytes at all are opened without a word, and fail at the first text
            raise DataError("the SentencePiece model is empty.")

    def cut(self, text: str) -> list[str]:
        return list(self._processor.encode(text, out_type=str))

    def join(self, pieces: Sequence[str]) -> str:
        # A joint vocabulary may hold pieces of another model: this one would leave their ▁ as it is.
        spaced = [piece.replace("▁", " ") if self._is_strange(piece) else piece for piece in pieces]
        text = str(self._processor.decode_pieces(spaced))
        return text.removeprefix(" ") if spaced and spaced[0].startswith(" ") else text

    def _is_strange(self, piece: str) -> bool:
        return self._processor.piece_to_id(piece) == self._processor.unk_id()

    def pieces(self) -> list[str]:
        """All of them, by their number in the model."""
        try:
            return [self._processor.id_to_piece(i) for i in range(self.size)]
        except UnicodeDecodeError:
            raise DataError("the SentencePiece model has a piece that is not UTF-8.") from None


class ByteLevelSegmenter:
    """GPT-2's: bytes in the guise of letters, merged pair by pair; a space belongs to the word behind it."""

    def __init__(self, merges: bytes) -> None:
        lines = _lines(merges, "the list of merges")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        if any(len(pair) != 2 for pair in pairs):
            raise DataError("the list of merges has a line that is not two pieces with a space between them.")
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._known = functools.lru_cache(maxsize=65536)(self._merged)
        self._letters = byte_letters()
        self._bytes = {letter: byte for byte, letter in self._letters.items()}

    def cut(self, text: str) -> list[str]:
        found: list[str] = []
        for word in gpt2_words().findall(text):
            found += self._known("".join(self._letters[byte] for byte in word.encode()))
        return found

    def join(self, pieces: Sequence[str]) -> str:
        text = bytearray()
        for letter in "".join(pieces):
            if letter in self._bytes:
                text.append(self._bytes[letter])
            else:  # a tag, written as it is
                text += letter.encode()
        return text.decode(errors="replace")

    def _merged(self, word: str) -> tuple[str, ...]:
        return merged(tuple(word), self._ranks)


class SubwordNMTSegmenter:
    """subword-nmt's: words between spaces, merged from their letters; a piece that does not end its word ends in @@."""

    END = "</w>"

    def __init__(self, codes: bytes) -> None:
        lines = [line for line in _lines(codes, "the list of codes") if line.strip()]
        version = (0, 1)
        if lines and lines[0].startswith("#version:"):
            numbers = re.fullmatch(r"#version:\s*(\d{1,3})\.(\d{1,3})\s*", lines.pop(0))
            version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
        if version not in ((0, 1), (0, 2)):
            raise DataError("the list of codes is of a version of subword-nmt that is not known (0.1 and 0.2 are).")
        self._end_apart = version == (0, 1)  # the mark of a word's end is a letter of its own there
        pairs = [tuple(line.strip("\r\n ").split(" ")[:2]) for line in lines]
        if any(len(pair) != 2 for pair in pairs):
            raise DataError("the list of codes has a line that is not two pieces with a space between them.")
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(pairs)))}  # the first of two counts
        self._known = functools.lru_cache(maxsize=65536)(self._word)

    def cut(self, text: str) -> list[str]:
        return [piece for word in text.split() for piece in self._known(word)]

    def join(self, pieces: Sequence[str]) -> str:
        return (" ".join(pieces) + " ").replace("@@ ", "").rstrip()

    def _word(self, word: str) -> tuple[str, ...]:
        letters = (*word, self.END) if self._end_apart else (*word[:-1], word[-1] + self.END)
        *pieces, last = merged(letters, self._ranks)
        last = last.removesuffix(self.END) or pieces.pop()
        return (*(f"{piece}@@" for piece in pieces), last)


class WordSegmenter:
    """Whatever stands between spaces."""

    def __init__(self, _: bytes = b"") -> None:
        pass

    def cut(self, text: str) -> list[str]:
        return text.split()

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces)


def merged(letters: tuple[str, ...], ranks: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """Of all neighbours the pair that was learned first becomes one, everywhere; until no learned pair is left."""
    while len(letters) > 1:
        first = min(itertools.pairwise(letters), key=lambda pair: ranks.get(pair, math.inf))
        if first not in ranks:
            break
        found, i = [], 0
        while i < len(letters):
            both = letters[i : i + 2] == first
            found.append("".join(first) if both else letters[i])
            i += 2 if both else 1
        letters = tuple(found)
    return letters


def _lines(file: bytes, what: str) -> list[str]:
    try:
        return file.decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{what} is not UTF-8 (byte {error.start:,}).") from None


def byte_letters() -> dict[int, str]:
    """A letter that can be seen for every byte: itself where it can, else one from behind the first 256."""
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in seen else next(others)) for byte in range(256)}


@functools.cache
def gpt2_words() -> re.Pattern[str]:
    """GPT-2's words: endings after an apostrophe, letters, digits, signs, each with the one space before it; spaces."""
    letter, number = _ranges("L"), _ranges("N")
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letter}]+| ?[{number}]+| ?[^{SPACE}{letter}{number}]+"
        rf"|[{SPACE}]+(?![^{SPACE}])|[{SPACE}]+"
    )


def _ranges(category: str) -> str:
    """All characters of a category as a set of `re`, which has no name for it."""
    own = (i for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i))[0] == category)
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in _runs(own))


def _runs(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = number
        elif number != last + 1:
            yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last
