"""Tokens that were added to a model's pieces, found in a text before anything else cuts it.

Special ones are no text: a text that has "</s>" in it has four signs there. Masks and T5's sentinels are special too,
and are meant to be written.
"""

import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.tokenizer_pipeline.component import SPACES
from glassformer.errors import DataError

WRITTEN = re.compile(r"▁?<(?:extra_id_\d+|mask(?:_\d+)?|unk_\d+)>")
"""Special tokens that a text may name."""
WORD = re.compile(r"[^\W]")
FLAGS = ("special", "normalized", "single_word", "lstrip", "rstrip")


@dataclass(frozen=True)
class AddedToken:
    """A token and how it is found: in the text's normal form or before it, between words only, with its spaces."""

    content: str
    number: int
    special: bool
    normalized: bool
    single_word: bool
    lstrip: bool
    rstrip: bool

    @property
    def in_texts(self) -> bool:
        return not self.special or WRITTEN.fullmatch(self.content) is not None


def added_tokens(values: Any) -> list[AddedToken]:
    """Those that a file lists."""
    if values is None:
        return []
    if not isinstance(values, list):
        raise DataError(f"its added_tokens are {reprlib.repr(values)}, not a list.")
    return [_token(value) for value in values]


def _token(value: Any) -> AddedToken:
    match value:
        case {"content": str(content), "id": int(number)} if content and len(content) <= 1000 and 0 <= number < 2**31:
            flags = {name: value.get(name, False) for name in FLAGS}
            if type(number) is int and all(isinstance(flag, bool) for flag in flags.values()):
                return AddedToken(content, number, **flags)
    raise DataError(f"one of its added_tokens is {reprlib.repr(value)}.")


class AddedTokenFinder:
    """Takes a text apart at tokens."""

    def __init__(self, tokens: Sequence[AddedToken], form: Callable[[str], str] = str) -> None:
        """`form`: in which tokens stand in the texts."""
        self._tokens: dict[str, AddedToken] = {}
        for token in tokens:
            self._tokens[form(token.content)] = token
        self._tokens.pop("", None)
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def split(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Parts of a text in order, each with the token that it is, if it is one."""
        end = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            token = self._tokens[match[0]]
            start, stop = match.span()
            if token.single_word and (WORD.match(text[start - 1 : start]) or WORD.match(text[stop : stop + 1])):
                continue
            if token.lstrip:
                start = max(len(text[:start].rstrip(SPACES)), end)
            if token.rstrip:
                stop = len(text) - len(text[stop:].lstrip(SPACES))
            if end < start:
                yield text[end:start], None
            yield text[start:stop], token.content
            end = stop
        if end < len(text):
            yield text[end:], None
