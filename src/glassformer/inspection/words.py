"""Tokens put together to words."""

from collections.abc import Sequence

SPACE = "▁"


def words(pieces: Sequence[str]) -> list[list[int]]:
    """The places of the tokens of each word: a word begins where a space does. The end of sentence is no word."""
    found: list[list[int]] = []
    for place, piece in enumerate(pieces[:-1]):
        if piece.startswith(SPACE) or not found:
            found.append([])
        found[-1].append(place)
    return found
