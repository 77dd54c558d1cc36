"""Words of a tokenised text, and of a sentence pair: the text of each word and its span of tokens.

Handles the word-boundary marks of several tokenizers; independent of models.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from glassformer.data import AnyTokenizer, IdsOnly, Tokenizer
from glassformer.data.subword_segmentation import ByteLevelSegmenter, SegmenterKind

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPECIALS = frozenset({"<s>", "</s>", "<pad>"})
UNSPACED_SCRIPTS = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Prefixes of the Unicode names of letters in scripts that do not separate words by spaces."""


@dataclass(frozen=True)
class Word:
    """A word and its span of tokens, from `first` up to and excluding `end`."""

    text: str
    first: int
    end: int


@dataclass(frozen=True)
class WordPair:
    """A sentence pair as token ids and as words."""

    source_ids: Sequence[int]
    target_ids: Sequence[int]
    """Target token ids, with the end-of-sentence token, without the start token."""
    source: list[Word]
    target: list[Word]

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        return [word.text for word in self.source], [word.text for word in self.target]


@dataclass(frozen=True)
class Marks:
    """Marks of a tokenizer: how it marks word boundaries, and which of its tokens are not text."""

    segmenter: SegmenterKind
    specials: frozenset[str] = SPECIALS
    opening: tuple[str, str] | None = None
    """Prefix and suffix of tokens that are not text, as in >>fra<<."""

    def is_special(self, piece: str) -> bool:
        if piece in self.specials:
            return True
        return self.opening is not None and piece.startswith(self.opening[0]) and piece.endswith(self.opening[1])


def marks_of(tokenizer: AnyTokenizer | IdsOnly) -> Marks:
    """The word-boundary marks of a tokenizer. Tags, such as language tags, are special tokens, not words."""
    if isinstance(tokenizer, IdsOnly):
        return Marks("words")
    if isinstance(tokenizer, Tokenizer):
        # Of kind "word" every token is a word, also the unknown token, which has no mark.
        whole = tokenizer.settings.kind == "word"
        return Marks("words" if whole else "sentencepiece", SPECIALS | {*tokenizer.settings.tags})
    settings = tokenizer.settings
    around = {*settings.before_source, *settings.after_source, *settings.before_target, *settings.after_target}
    specials = SPECIALS | around | {*settings.languages.values(), *settings.tags, *settings.hidden}
    opening = (settings.opening[0], settings.opening[1]) if len(settings.opening) == 2 else None
    return Marks(tokenizer.marks, specials - {settings.unknown}, opening)  # the unknown token stands for a word


def marks_in(pieces: Sequence[str]) -> Marks:
    """Word-boundary marks guessed from tokens, without the tokenizer; if no token has marks, each is a word."""
    if any("▁" in piece for piece in pieces):
        return Marks("sentencepiece")
    if any(piece.startswith("Ġ") for piece in pieces):
        return Marks("byte-level")
    return Marks("subword-nmt" if any(piece.endswith("@@") for piece in pieces) else "words")


def words(pieces: Sequence[str], marks: Marks | None = None, apart: bool = True) -> list[Word]:
    """The words of a sequence of tokens, in order; special tokens (tags, end of sentence) belong to no word.

    A word begins at a space. Punctuation at its edges is a word of its own, punctuation inside is not: "didn't". In
    scripts without spaces, every token is a word. Without `apart`, words are split at spaces only.
    """
    marks = marks or marks_in(pieces)
    texts = [_text([piece], marks.segmenter) for piece in pieces]
    spans = _between_spaces(pieces, texts, marks)
    if apart:
        spans = [part for span in spans for part in _split_punctuation(span, texts)]
    return [Word(_text(pieces[first:end], marks.segmenter).strip(), first, end) for first, end in spans]


def word_pair(
    tokenizer: AnyTokenizer | IdsOnly, source: Sequence[int], target: Sequence[int], apart: bool = True
) -> WordPair:
    """A sentence pair with token ids and words; without `apart`, words are split at spaces only."""
    marks = marks_of(tokenizer)
    pieces = tokenizer.pieces(source, "source"), tokenizer.pieces(target, "target")
    return WordPair(source, target, words(pieces[0], marks, apart), words(pieces[1], marks, apart))


def _text(pieces: Sequence[str], segmenter: SegmenterKind) -> str:
    if segmenter == "byte-level":
        return _byte_level().join(pieces)
    if segmenter == "subword-nmt":
        return "".join(piece.removesuffix("@@") for piece in pieces)
    if segmenter == "words":
        return "".join(piece.removeprefix("▁") for piece in pieces)
    # A letter may be encoded as several bytes, each of them a token.
    spelled = (bytes.fromhex(m[1]) if (m := BYTE.fullmatch(p)) else p.replace("▁", " ").encode() for p in pieces)
    return b"".join(spelled).decode(errors="replace")


@functools.cache
def _byte_level() -> ByteLevelSegmenter:
    return ByteLevelSegmenter(b"")


def _between_spaces(pieces: Sequence[str], texts: Sequence[str], marks: Marks) -> list[tuple[int, int]]:
    """Token spans of words split at spaces. A token that is only a space belongs to the next word, else to the last."""
    spans: list[tuple[int, int]] = []
    first: int | None = None
    for position, piece in enumerate([*pieces, ""]):
        ends = position == len(pieces) or marks.is_special(piece)
        if first is not None and (ends or _begins_word(position, pieces, texts, marks.segmenter)):
            blank = not any(text.strip() for text in texts[first:position])
            if not blank:
                spans.append((first, position))
            elif not ends:
                continue  # the next word begins here and includes these spaces
            elif spans and spans[-1][1] == first:
                spans[-1] = (spans[-1][0], position)
            first = None
        if first is None and not ends:
            first = position
    return spans


def _begins_word(position: int, pieces: Sequence[str], texts: Sequence[str], segmenter: SegmenterKind) -> bool:
    if segmenter == "words":
        return True
    if segmenter == "subword-nmt":
        return position == 0 or not pieces[position - 1].endswith("@@")
    return texts[position][:1].isspace()


def _split_punctuation(span: tuple[int, int], texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Split the text between two spaces into leading punctuation, the word, and trailing punctuation."""
    first, end = span
    non_blank = [position for position in range(first, end) if texts[position].strip()]
    letters = [position for position in non_blank if not _is_punctuation(texts[position])]
    unspaced = {position for position in letters if _is_unspaced_script(texts[position])}
    inside = range(letters[0], letters[-1] + 1) if letters else range(0)
    single = {
        position
        for position in non_blank
        if position in unspaced or (position not in letters and (unspaced or position not in inside))
    }
    for left, right in pairwise(non_blank):
        if left in single or right in single:
            yield first, left + 1
            first = left + 1
    yield first, end


def _is_punctuation(text: str) -> bool:
    return all(unicodedata.category(letter)[0] in "PS" and letter != "\ufffd" for letter in text.strip())


def _is_unspaced_script(text: str) -> bool:
    return any(unicodedata.name(letter, "").startswith(UNSPACED_SCRIPTS) for letter in text)
