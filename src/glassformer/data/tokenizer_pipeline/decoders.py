"""Decoders of a `tokenizer.json`: pieces to text. Each step maps pieces to pieces; the result is concatenated."""

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from glassformer.data.subword_segmentation import bytes_to_unicode
from glassformer.data.tokenizer_pipeline.component import Component, components_of
from glassformer.data.tokenizer_pipeline.pre_tokenizers import prepend_scheme

DecoderStep = Callable[[Sequence[str]], list[str]]
BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
UNKNOWN_TEXT = " ⁇ "
"""The text of an unknown token, as in SentencePiece: visible, so that it is noticed."""


def decoder_steps(values: Any) -> list[DecoderStep]:
    """The decoding steps that the `decoder` of a `tokenizer.json` describes."""
    return [_step(component) for component in components_of("decoder", values, "decoders")]


def is_byte_level(values: Any) -> bool:
    """Whether a decoder is byte-level BPE's: its pieces are bytes mapped to printable characters."""
    return any(component.kind == "ByteLevel" for component in components_of("decoder", values, "decoders"))


def _step(component: Component) -> DecoderStep:
    match component.kind:
        case "Metaspace":
            return _metaspace(component)
        case "ByteLevel":
            return _byte_level()
        case "ByteFallback":
            return _byte_fallback
        case "Fuse":
            return lambda pieces: ["".join(pieces)]
        case "Replace":
            replace = component.replace()
            return lambda pieces: [replace(piece) for piece in pieces]
    raise component.unsupported()


def _metaspace(component: Component) -> DecoderStep:
    marker = component.character("replacement")
    first = "" if prepend_scheme(component) != "never" else " "
    return lambda pieces: [piece.replace(marker, " " if index else first) for index, piece in enumerate(pieces)]


def _byte_level() -> DecoderStep:
    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}

    def decode(piece: str) -> bytes:
        if all(character in byte_of for character in piece):
            return bytes(byte_of[character] for character in piece)
        return piece.encode()  # an added token, which is not byte-encoded

    return lambda pieces: [b"".join(map(decode, pieces)).decode(errors="replace")]


def _byte_fallback(pieces: Sequence[str]) -> list[str]:
    """Decode runs of byte tokens to text; invalid UTF-8 becomes one replacement character per byte."""
    decoded: list[str] = []
    for is_byte, group in groupby(pieces, lambda piece: BYTE.fullmatch(piece) is not None):
        run = list(group)
        if not is_byte:
            decoded += run
            continue
        try:
            decoded.append(bytes(int(piece[3:5], 16) for piece in run).decode())
        except UnicodeDecodeError:
            decoded += ["\ufffd"] * len(run)
    return decoded
