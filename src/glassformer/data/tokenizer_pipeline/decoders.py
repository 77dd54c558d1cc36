"""Pieces to text: the steps that a `decoder` describes, each from pieces to pieces; what is left is put together."""

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from glassformer.data.subword_segmentation import byte_letters
from glassformer.data.tokenizer_pipeline.component import Component, parts_of
from glassformer.data.tokenizer_pipeline.pre_tokenizers import prepends

Joiner = Callable[[Sequence[str]], list[str]]
BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
UNKNOWN = " ⁇ "
"""How an unknown piece is written, by SentencePiece too: left out, nobody would miss it."""


def joiners(values: Any) -> list[Joiner]:
    """The steps that a `decoder` describes."""
    return [_joiner(part) for part in parts_of("decoder", values, "decoders")]


def is_byte_level(values: Any) -> bool:
    """Whether pieces are bytes in the guise of letters."""
    return any(part.kind == "ByteLevel" for part in parts_of("decoder", values, "decoders"))


def _joiner(part: Component) -> Joiner:
    match part.kind:
        case "Metaspace":
            return _metaspace(part)
        case "ByteLevel":
            return _byte_level()
        case "ByteFallback":
            return _from_bytes
        case "Fuse":
            return lambda pieces: ["".join(pieces)]
        case "Replace":
            pattern, content = part.pattern(), part.text("content")
            return lambda pieces: [pattern.sub(lambda _: content, piece) for piece in pieces]
        case "Strip":
            letter, start, stop = part.letter("content"), part.number("start"), part.number("stop")
            return lambda pieces: [_stripped(piece, letter, start, stop) for piece in pieces]
    raise part.strange()


def _metaspace(part: Component) -> Joiner:
    sign, first = part.letter("replacement"), "" if prepends(part) != "never" else " "
    return lambda pieces: [piece.replace(sign, " " if place else first) for place, piece in enumerate(pieces)]


def _byte_level() -> Joiner:
    of_letter = {letter: byte for byte, letter in byte_letters().items()}

    def spelled(piece: str) -> bytes:
        if all(letter in of_letter for letter in piece):
            return bytes(of_letter[letter] for letter in piece)
        return piece.encode()  # a token that is written as it is

    return lambda pieces: [b"".join(map(spelled, pieces)).decode(errors="replace")]


def _from_bytes(pieces: Sequence[str]) -> list[str]:
    found: list[str] = []
    for is_byte, group in groupby(pieces, lambda piece: BYTE.fullmatch(piece) is not None):
        run = list(group)
        if not is_byte:
            found += run
            continue
        try:
            found.append(bytes(int(piece[3:5], 16) for piece in run).decode())
        except UnicodeDecodeError:
            found += ["\ufffd"] * len(run)
    return found


def _stripped(piece: str, letter: str, start: int, stop: int) -> str:
    """Without so many of a letter at its ends, at most."""
    left = min(start, len(piece) - len(piece.lstrip(letter)))
    right = min(stop, len(piece) - len(piece.rstrip(letter)))
    return piece[left : len(piece) - right] if left + right < len(piece) else ""
