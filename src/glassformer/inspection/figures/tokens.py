"""Positions by the tokens that stand there."""

from collections.abc import Sequence

from glassformer.errors import InputError
from glassformer.inspection.pieces import find_token, plain
from glassformer.inspection.trace import Trace

Token = dict[str, str]
"""A `Token` of frontend/src/figures/types.ts."""


def source_tokens(trace: Trace) -> list[Token]:
    return [{"text": piece} for piece in trace.source]


def target_tokens(trace: Trace) -> list[Token]:
    """Each position's two tokens: after which it stands, and what it has to predict."""
    return [{"text": own, "after": before} for own, before in zip(trace.target, trace.reads, strict=True)]


def position_of(token: str | int | None, pieces: Sequence[str]) -> int | None:
    """Where a token stands: the first piece or word that is so written ("it#2" is the second), or a position."""
    if token is None:
        return None
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
