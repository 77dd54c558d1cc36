"""Tokens put together to words: which tokens each word is made of, and how it is written.

Knows the marks that tokenizers leave on pieces; knows nothing of models.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from glassformer.data import AnyTokenizer, IdsOnly, Tokenizer
from glassformer.data.subword_segmentation import ByteLevelSegmenter, Cut

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPECIALS = frozenset({"<s>", "</s>", "<pad>"})
WITHOUT_SPACES = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""How the names of letters begin whose languages put no spaces between words."""


@dataclass(frozen=True)
class Word:
    """A word and its tokens: those from `first` on, up to but not with `end`."""

    text: str
    first: int
    end: int

    @property
    def tokens(self) -> slice:
        return slice(self.first, self.end)


@dataclass(frozen=True)
class Marks:
    """How a tokenizer marks where words begin, and which of its pieces are no text."""

    cut: Cut
    specials: frozenset[str] = SPECIALS
    opening: tuple[str, str] | None = None
    """Signs around a piece that is no text: >>fra<<."""

    def is_special(self, piece: str) -> bool:
        if piece in self.specials:
            return True
        return self.opening is not None and piece.startswith(self.opening[0]) and piece.endswith(self.opening[1])


def marks_of(tokenizer: AnyTokenizer | IdsOnly) -> Marks:
    """What a tokenizer's pieces look like. Tags, such as those that name a language, are no words."""
    if isinstance(tokenizer, IdsOnly):
        return Marks("words")
    if isinstance(tokenizer, Tokenizer):
        # Of kind "word" every piece is a word, also the unknown one, which has no mark.
        whole = tokenizer.settings.kind == "word"
        return Marks("words" if whole else "sentencepiece", SPECIALS | {*tokenizer.settings.tags})
    own = tokenizer.settings
    around = {*own.before_source, *own.after_source, *own.before_target, *own.after_target}
    specials = SPECIALS | around | {*own.languages.values(), *own.tags, *own.hidden}
    opening = (own.opening[0], own.opening[1]) if len(own.opening) == 2 else None
    return Marks(tokenizer.marks, specials - {own.unknown}, opening)  # something unknown is still a word


def marks_in(pieces: Sequence[str]) -> Marks:
    """What pieces look like whose tokenizer is not at hand; without any marks every piece is a word."""
    if any("▁" in piece for piece in pieces):
        return Marks("sentencepiece")
    if any(piece.startswith("Ġ") for piece in pieces):
        return Marks("byte-level")
    return Marks("subword-nmt" if any(piece.endswith("@@") for piece in pieces) else "words")


def words(pieces: Sequence[str], marks: Marks | None = None, apart: bool = True) -> list[Word]:
    """The words of a text's pieces, in order; what is no text (tags, ends of sentence) belongs to none.

    A word begins where a space does. Signs at its edges are words of their own, those inside are not: "didn't".
    Where a language puts no spaces, every piece is a word. Without `apart`, words are what stands between spaces.
    """
    marks = marks or marks_in(pieces)
    texts = [_text([piece], marks.cut) for piece in pieces]
    spans = _between_spaces(pieces, texts, marks)
    if apart:
        spans = [part for span in spans for part in _signs_apart(span, texts)]
    return [Word(_text(pieces[first:end], marks.cut).strip(), first, end) for first, end in spans]


def _text(pieces: Sequence[str], cut: Cut) -> str:
    if cut == "byte-level":
        return _byte_level().join(pieces)
    if cut == "subword-nmt":
        return "".join(piece.removesuffix("@@") for piece in pieces)
    if cut == "words":
        return "".join(piece.removeprefix("▁") for piece in pieces)
    # A letter may be spelled in several bytes, each a token.
    spelled = (bytes.fromhex(m[1]) if (m := BYTE.fullmatch(p)) else p.replace("▁", " ").encode() for p in pieces)
    return b"".join(spelled).decode(errors="replace")


@functools.cache
def _byte_level() -> ByteLevelSegmenter:
    return ByteLevelSegmenter(b"")


def _between_spaces(pieces: Sequence[str], texts: Sequence[str], marks: Marks) -> list[tuple[int, int]]:
    """From where to where each word goes. A space alone belongs to the word behind it, else to the one before."""
    spans: list[tuple[int, int]] = []
    first: int | None = None
    for place, piece in enumerate([*pieces, ""]):
        ends = place == len(pieces) or marks.is_special(piece)
        if first is not None and (ends or _begins(place, pieces, texts, marks.cut)):
            blank = not any(text.strip() for text in texts[first:place])
            if not blank:
                spans.append((first, place))
            elif not ends:
                continue  # the word behind it begins here, with its spaces
            elif spans and spans[-1][1] == first:
                spans[-1] = (spans[-1][0], place)
            first = None
        if first is None and not ends:
            first = place
    return spans


def _begins(place: int, pieces: Sequence[str], texts: Sequence[str], cut: Cut) -> bool:
    if cut == "words":
        return True
    if cut == "subword-nmt":
        return place == 0 or not pieces[place - 1].endswith("@@")
    return texts[place][:1].isspace()


def _signs_apart(span: tuple[int, int], texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """What stands between two spaces as words: signs before it, itself, signs behind it."""
    first, end = span
    solid = [place for place in range(first, end) if texts[place].strip()]
    letters = [place for place in solid if not _is_sign(texts[place])]
    unspaced = {place for place in letters if _has_no_spaces(texts[place])}
    inside = range(letters[0], letters[-1] + 1) if letters else range(0)
    alone = {
        place for place in solid if place in unspaced or (place not in letters and (unspaced or place not in inside))
    }
    for one, other in pairwise(solid):
        if one in alone or other in alone:
            yield first, one + 1
            first = one + 1
    yield first, end


def _is_sign(text: str) -> bool:
    return all(unicodedata.category(letter)[0] in "PS" and letter != "\ufffd" for letter in text.strip())


def _has_no_spaces(text: str) -> bool:
    return any(unicodedata.name(letter, "").startswith(WITHOUT_SPACES) for letter in text)
