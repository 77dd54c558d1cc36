"""Tokens as people name them: without the marks that tokenizers leave on them."""

from collections.abc import Sequence

from glassformer.errors import InputError
from glassformer.inspection.alignment.word_spans import words

BEGINNINGS = ("▁", "Ġ")
"""What the first piece of a word begins with, in the tokenizers that mark it so."""


def plain(piece: str) -> str:
    """A piece without what marks the beginning of a word."""
    for mark in BEGINNINGS:
        piece = piece.replace(mark, "")
    return piece


def is_special(piece: str) -> bool:
    """Whether a piece is no text, such as </s>."""
    return piece.startswith("<") and piece.endswith(">") and len(piece) > 2


def is_word(piece: str) -> bool:
    """Whether a piece has a letter in it."""
    return any(letter.isalpha() for letter in piece) and not is_special(piece)


def position_of(token: str | int, pieces: Sequence[str]) -> int:
    """Where a token stands: the first piece or word that is so written ("it#2" is the second), or a position."""
    if isinstance(token, int):
        if token < len(pieces):
            return token
        raise InputError(f"There are {len(pieces)} positions, counted from 0, and none is {token}.")
    found = find_token(pieces, token)
    if found is None and token.isdecimal() and int(token) < len(pieces):
        return int(token)
    if found is None:
        names = " ".join(plain(piece) for piece in pieces)
        raise InputError(f"No token is {token!r}: there are {names}; or give a position, from 0.")
    return found


def find_token(pieces: Sequence[str], name: str) -> int | None:
    """The place of a token by its name, without ▁ if one likes; "it#2" is the second. Of a word, its first token."""
    wanted, _, number = name.rpartition("#")
    if not (wanted and number.isdecimal() and int(number) > 0):
        wanted, number = name, "1"
    found = (
        [i for i, piece in enumerate(pieces) if wanted in (piece, plain(piece))]
        or [i for i, piece in enumerate(pieces) if plain(piece).lower() == wanted.lower()]
        or [word.first for word in words(pieces) if word.text.lower() == wanted.lower()]
    )
    return found[int(number) - 1] if int(number) <= len(found) else None
