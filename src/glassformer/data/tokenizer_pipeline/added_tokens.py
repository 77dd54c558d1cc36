"""Added tokens of a `tokenizer.json`, matched in a text before it is pre-tokenized.

Special tokens are not matched in texts: "</s>" in a text is four characters. Exceptions are masks and T5's sentinels,
which are special and meant to be written in texts.
"""

import re
import reprlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.tokenizer_pipeline.component import WHITESPACE_CHARACTERS
from glassformer.errors import DataError

WRITABLE_SPECIALS = re.compile(r"▁?<(?:extra_id_\d+|mask(?:_\d+)?|unk_\d+)>")
"""Special tokens that a text may contain."""
WORD_CATEGORIES = {"Nd", "Nl", "Pc"}
"""Besides letters and marks."""
OTHER_WORD_CHARACTERS = {0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A)}
OTHER_WORD_CHARACTERS |= set(range(0x1F170, 0x1F18A))
"""Joiners, and letters in circles and squares."""
FLAGS = ("special", "normalized", "single_word", "lstrip", "rstrip")


@dataclass(frozen=True)
class AddedToken:
    """An added token and how it is matched: before or after normalisation, as a whole word, with outer whitespace."""

    content: str
    id: int
    special: bool
    normalized: bool
    single_word: bool
    lstrip: bool
    rstrip: bool

    @property
    def matches_in_texts(self) -> bool:
        """Whether the token is matched in texts: all but special tokens that are not meant to be written."""
        return not self.special or WRITABLE_SPECIALS.fullmatch(self.content) is not None


def added_tokens(values: Any) -> list[AddedToken]:
    """Parse the added tokens that a `tokenizer.json` lists."""
    if values is None:
        return []
    if not isinstance(values, list):
        raise DataError(f"added_tokens must be a list, not {reprlib.repr(values)}.")
    return [_parse_token(value) for value in values]


def _parse_token(value: Any) -> AddedToken:
    match value:
        case {"content": str(content), "id": int(index)} if content and len(content) <= 1000 and 0 <= index < 2**31:
            flags = {name: value.get(name, False) for name in FLAGS}
            if type(index) is int and all(isinstance(flag, bool) for flag in flags.values()):
                return AddedToken(content, index, **flags)
    raise DataError(f"added_tokens has an invalid entry: {reprlib.repr(value)}.")


def is_word_character(character: str) -> bool:
    r"""Whether `\w` in the regular expressions of `tokenizers` matches it: unlike Python's, marks, but not ½ or ²."""
    category = unicodedata.category(character)
    return category[0] in "LM" or category in WORD_CATEGORIES or ord(character) in OTHER_WORD_CHARACTERS


class AddedTokenFinder:
    """Splits a text at added tokens."""

    def __init__(self, tokens: Sequence[AddedToken], normalize: Callable[[str], str] = str) -> None:
        """`normalize` is applied to the tokens to find; the texts to split are already normalised."""
        self._tokens = {normalize(token.content): token for token in tokens}
        self._tokens.pop("", None)
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def split(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Split a text: its parts in order, each with the added token that it matches, or None."""
        end = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            token = self._tokens[match[0]]
            start, stop = match.span()
            if token.single_word and any(map(is_word_character, text[start - 1 : start] + text[stop : stop + 1])):
                continue
            if token.lstrip:
                start = max(len(text[:start].rstrip(WHITESPACE_CHARACTERS)), end)
            if token.rstrip:
                stop = len(text) - len(text[stop:].lstrip(WHITESPACE_CHARACTERS))
            if end < start:
                yield text[end:start], None
            yield text[start:stop], token.content
            end = stop
        if end < len(text):
            yield text[end:], None
