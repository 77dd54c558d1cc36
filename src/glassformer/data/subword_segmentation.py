"""Subword segmenters of imported models: SentencePiece, byte-level BPE, bytes, subword-nmt and whitespace.

Each splits text into pieces and joins pieces to text; ids are assigned elsewhere.
"""

import functools
import itertools
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import sentencepiece

from glassformer.errors import DataError

SegmenterKind = Literal["sentencepiece", "byte-level", "bytes", "subword-nmt", "words", "pipeline"]
"""Kind of subword segmentation; "pipeline" is what a `tokenizer.json` describes (see `tokenizer_pipeline`)."""
WHITESPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode whitespace as the inside of a character class of `re`, whose own \\s has four characters more."""


class Segmenter(Protocol):
    """A subword segmenter: text to pieces and back."""

    def segment(self, text: str) -> list[str]: ...

    def join(self, pieces: Sequence[str]) -> str: ...


class SentencePieceSegmenter:
    """Segmenter by a SentencePiece model, including the model's normalisation."""

    def __init__(self, model: bytes) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self.size: int = self._processor.vocab_size()
        except (RuntimeError, ValueError) as error:
            raise DataError(f"the SentencePiece model cannot be loaded ({str(error).splitlines()[0]}).") from None
        if not self.size:  # zero bytes load without an error, and fail at the first text
            raise DataError("the SentencePiece model is empty.")

    def segment(self, text: str) -> list[str]:
        return list(self._processor.encode(text, out_type=str))

    def join(self, pieces: Sequence[str]) -> str:
        # A joint vocabulary may contain pieces of another model, whose ▁ this model would not replace.
        spaced = [piece.replace("▁", " ") if self._is_unknown(piece) else piece for piece in pieces]
        text = str(self._processor.decode_pieces(spaced))
        return text.removeprefix(" ") if spaced and spaced[0].startswith(" ") else text

    def _is_unknown(self, piece: str) -> bool:
        return self._processor.piece_to_id(piece) == self._processor.unk_id()

    def pieces(self) -> list[str]:
        """All pieces of the model, in the order of their ids."""
        try:
            return [self._processor.id_to_piece(i) for i in range(self.size)]
        except UnicodeDecodeError:
            raise DataError("the SentencePiece model has a piece that is not UTF-8.") from None


class ByteLevelSegmenter:
    """GPT-2's byte-level BPE: bytes mapped to printable characters, then merged; a space belongs to the next word."""

    errors = "replace"

    def __init__(self, merges: bytes) -> None:
        lines = _decode_lines(merges, "the merges file")
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        if any(len(pair) != 2 for pair in pairs):
            raise DataError("the merges file has a line that is not two pieces separated by a space.")
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._cached_merge = functools.lru_cache(maxsize=65536)(lambda word: apply_merges(tuple(word), self._ranks))
        self._characters = bytes_to_unicode()
        self._bytes = {character: byte for byte, character in self._characters.items()}

    def segment(self, text: str) -> list[str]:
        pieces: list[str] = []
        for word in gpt2_pattern().findall(text):
            pieces += self._cached_merge("".join(self._characters[byte] for byte in word.encode()))
        return pieces

    def join(self, pieces: Sequence[str]) -> str:
        text = bytearray()
        for character in "".join(pieces):
            if character in self._bytes:
                text.append(self._bytes[character])
            else:  # part of a tag, which is not byte-encoded
                text += character.encode()
        return text.decode(errors=self.errors)


class ByteSegmenter(ByteLevelSegmenter):
    """ByT5's segmenter: every byte is a piece; bytes that are not UTF-8 are left out of a text."""

    errors = "ignore"

    def segment(self, text: str) -> list[str]:
        return [self._characters[byte] for byte in text.encode()]


class SubwordNMTSegmenter:
    """subword-nmt's BPE on whitespace-separated words: every piece but the last of a word ends in @@."""

    END = "</w>"

    def __init__(self, codes: bytes) -> None:
        lines = [line for line in _decode_lines(codes, "the codes file") if line.strip()]
        version = (0, 1)
        if lines and lines[0].startswith("#version:"):
            numbers = re.fullmatch(r"#version:\s*(\d{1,3})\.(\d{1,3})\s*", lines.pop(0))
            version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
        if version not in ((0, 1), (0, 2)):
            raise DataError("the codes file has an unsupported subword-nmt version (supported: 0.1 and 0.2).")
        self._separate_end = version == (0, 1)  # there, the end-of-word marker is a symbol of its own
        pairs = [tuple(line.strip("\r\n ").split(" ")[:2]) for line in lines]
        if any(len(pair) != 2 for pair in pairs):
            raise DataError("the codes file has a line that is not two pieces separated by a space.")
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(pairs)))}  # the first of duplicates counts
        self._cached_segment = functools.lru_cache(maxsize=65536)(self._segment_word)

    def segment(self, text: str) -> list[str]:
        return [piece for word in text.split() for piece in self._cached_segment(word)]

    def join(self, pieces: Sequence[str]) -> str:
        return (" ".join(pieces) + " ").replace("@@ ", "").rstrip()

    def _segment_word(self, word: str) -> tuple[str, ...]:
        symbols = (*word, self.END) if self._separate_end else (*word[:-1], word[-1] + self.END)
        *pieces, last = apply_merges(symbols, self._ranks)
        last = last.removesuffix(self.END) or pieces.pop()
        return (*(f"{piece}@@" for piece in pieces), last)


class WordSegmenter:
    """Segmenter that splits text at whitespace."""

    def __init__(self, _: bytes = b"") -> None:
        pass

    def segment(self, text: str) -> list[str]:
        return text.split()

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces)


SEGMENTERS: dict[SegmenterKind, Callable[[bytes], Segmenter]] = {
    "sentencepiece": SentencePieceSegmenter,
    "byte-level": ByteLevelSegmenter,
    "bytes": ByteSegmenter,
    "subword-nmt": SubwordNMTSegmenter,
    "words": WordSegmenter,
}
"""The segmenters by kind, except the pipeline."""


def apply_merges(symbols: tuple[str, ...], ranks: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """BPE: merge all occurrences of the adjacent pair of lowest rank (learned first), until no pair has a rank."""
    while len(symbols) > 1:
        best = min(itertools.pairwise(symbols), key=lambda pair: ranks.get(pair, math.inf))
        if best not in ranks:
            break
        merged, i = [], 0
        while i < len(symbols):
            matches = symbols[i : i + 2] == best
            merged.append("".join(best) if matches else symbols[i])
            i += 2 if matches else 1
        symbols = tuple(merged)
    return symbols


def _decode_lines(content: bytes, name: str) -> list[str]:
    try:
        return content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8 (byte {error.start:,}).") from None


def bytes_to_unicode() -> dict[int, str]:
    """GPT-2's printable character for every byte: the byte's own if printable, else one from U+0100 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    substitutes = iter(range(256, 512))
    return {byte: chr(byte if byte in printable else next(substitutes)) for byte in range(256)}


@functools.cache
def gpt2_pattern() -> re.Pattern[str]:
    """GPT-2's pre-tokenizer: contractions; letters, digits or other symbols with one leading space; whitespace."""
    letter, number = _category_ranges("L"), _category_ranges("N")
    return re.compile(
        rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letter}]+| ?[{number}]+| ?[^{WHITESPACE}{letter}{number}]+"
        rf"|[{WHITESPACE}]+(?![^{WHITESPACE}])|[{WHITESPACE}]+"
    )


def _category_ranges(category: str) -> str:
    """All characters of a Unicode category as ranges for a character class; `re` has no name for it."""
    runs = itertools.groupby(range(sys.maxunicode + 1), lambda code: unicodedata.category(chr(code))[0] == category)
    members = [list(codes) for in_category, codes in runs if in_category]
    return "".join(f"\\U{codes[0]:08x}-\\U{codes[-1]:08x}" for codes in members)
