"""Token lookup by the text that users type, without the tokenizer's marks."""

from collections.abc import Sequence

from glassformer.data.word_spans import words
from glassformer.errors import InputError

WORD_START_MARKS = ("▁", "Ġ")
"""Prefixes of a word's first token, in tokenizers that mark word starts."""


def plain(piece: str) -> str:
    """A token's text without word-start marks."""
    for mark in WORD_START_MARKS:
        piece = piece.replace(mark, "")
    return piece


def is_special(piece: str) -> bool:
    """Whether a token is a special one, such as </s>."""
    return piece.startswith("<") and piece.endswith(">") and len(piece) > 2


def is_word(piece: str) -> bool:
    """Whether a token contains a letter."""
    return any(letter.isalpha() for letter in piece) and not is_special(piece)


def position_of(token: str | int, pieces: Sequence[str]) -> int:
    """Position of a token, given as text (a token or a word; "it#2" is the second "it") or as a position."""
    if isinstance(token, int):
        if token < len(pieces):
            return token
        raise InputError(f"Position {token} is out of range (0 to {len(pieces) - 1}).")
    position = find_token(pieces, token)
    if position is None and token.isdecimal() and int(token) < len(pieces):
        return int(token)
    if position is None:
        names = " ".join(plain(piece) for piece in pieces)
        raise InputError(
            f"There is no token {token!r}. Give one of these tokens ({names}), or a position from 0 to "
            f"{len(pieces) - 1}."
        )
    return position


def occurrence(name: str) -> tuple[str, int]:
    """A text and which of its occurrences is meant, counted from 0: "it#2" is the second "it", "it" the first."""
    text, _, number = name.rpartition("#")
    if text and number.isdecimal() and len(number) < 10 and int(number) > 0:
        return text, int(number) - 1
    return name, 0


def find_token(pieces: Sequence[str], name: str) -> int | None:
    """Position of a token by its text, with or without ▁; "it#2" is the second. For a word, its first token."""
    text, number = occurrence(name)
    positions = (
        [i for i, piece in enumerate(pieces) if text in (piece, plain(piece))]
        or [i for i, piece in enumerate(pieces) if plain(piece).lower() == text.lower()]
        or [word.first for word in words(pieces) if word.text.lower() == text.lower()]
    )
    return positions[number] if number < len(positions) else None
