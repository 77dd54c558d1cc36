"""Words of a source sentence: where one stands, in the text and among the tokens, and what others could stand there.

Knows texts and tokenizers; knows nothing of attention.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.data import AnyTokenizer
from glassformer.errors import InputError
from glassformer.inspection.alignment.word_spans import marks_of, words
from glassformer.model import Transformer

DETERMINERS = frozenset(
    {
        *("a", "an", "the", "this", "these", "those", "my", "your", "his", "her", "its", "our", "their"),
        *("some", "any", "every", "each", "no", "another"),
    }
)
"""English words behind which a noun is expected; "that" is more often none. Other languages' nouns must be named."""
STOPS = DETERMINERS | {
    *("it", "he", "she", "they", "him", "them", "that", "who", "which", "what"),
    *("and", "or", "but", "because", "so", "although"),
}
"""Words that a noun does not go beyond."""
LONGEST_NOUN = 3
NEAREST = 0.3
"""How many of the words that are tried have the most similar embeddings; the others are drawn by chance."""


@dataclass(frozen=True)
class WordSpan:
    """A word, or a few in a row, in a source."""

    text: str
    """As it is written there."""
    start: int
    """Its first letter's place in the sentence."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def replaced(self, sentence: str, word: str) -> str:
        """The sentence with another word in this place."""
        return f"{sentence[: self.start]}{_cased(word, self.text)}{sentence[self.end :]}"


def _cased(word: str, like: str) -> str:
    return word[:1].upper() + word[1:] if like[:1].isupper() and len(like) > 1 and not like.isupper() else word


def find(sentence: str, name: str) -> WordSpan:
    """The word of this name; "it#2" is the second of them."""
    wanted, _, number = name.rpartition("#")
    if not (wanted and number.isdecimal() and len(number) < 10 and int(number) > 0):
        wanted, number = name, "1"
    found = list(re.finditer(rf"(?<!\w){re.escape(wanted.strip())}(?!\w)", sentence, re.IGNORECASE))
    if not wanted.strip() or not found:
        raise InputError(f"There is no word {wanted!r} in {sentence!r}.")
    if int(number) > len(found):
        raise InputError(f"{wanted!r} occurs {len(found)} times in {sentence!r}, and not {number}.")
    return WordSpan(found[int(number) - 1][0], found[int(number) - 1].start())


def noun_phrases(sentence: str, word: WordSpan) -> list[list[WordSpan]]:
    """What may be nouns: behind each determiner one word, two, three, as far as nothing ends them."""
    spots = _spots(sentence)
    phrases = []
    for i, spot in enumerate(spots[:-1]):
        if spot.text.lower() not in DETERMINERS or spot.start == word.start:
            continue
        lengths = []
        for j in range(i + 1, min(i + 1 + LONGEST_NOUN, len(spots))):
            between = sentence[spots[j - 1].end : spots[j].start]
            if spots[j].text.lower() in STOPS or between.strip() or spots[j].start == word.start:
                break
            first = spots[i + 1].start
            lengths.append(WordSpan(sentence[first : spots[j].end], first))
        if lengths:
            phrases.append(lengths)
    return phrases


def content_words(sentence: str) -> list[WordSpan]:
    """The words that are no determiners, pronouns or conjunctions."""
    return [spot for spot in _spots(sentence) if spot.text.lower() not in STOPS]


def _spots(sentence: str) -> list[WordSpan]:
    return [WordSpan(found[0], found.start()) for found in re.finditer(r"\w+(?:['’-]\w+)*", sentence)]


def tokens_of(spot: WordSpan, sentence: str, pieces: Sequence[str], tokenizer: AnyTokenizer) -> list[int]:
    """The places of its tokens."""
    before = len(_texts(sentence[: spot.start]))
    count = len(_texts(spot.text))
    found = [word for word in words(pieces, marks_of(tokenizer)) if _texts(word.text)]
    own = found[before : before + count]
    if [text for word in own for text in _texts(word.text)] != _texts(spot.text):
        raise InputError(f"{spot.text!r} has no tokens of its own in {' '.join(pieces)!r}.")
    return [place for word in own for place in range(word.first, word.end)]


def _texts(text: str) -> list[str]:
    """The words of a text in the way that tokens are put together to words."""
    return re.findall(r"\w+(?:[^\w\s]+\w+)*", text)


def vocabulary(tokenizer: AnyTokenizer) -> dict[str, int]:
    """Words that are one token of the source: in small letters, three at least."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")
    marks = [mark for mark in ("▁", "Ġ") if any(piece.startswith(mark) and len(piece) > 1 for piece in pieces)]
    found = {}
    for number, piece in enumerate(pieces):
        if marks and not piece.startswith(marks[0]):
            continue
        word = piece.removeprefix(marks[0]) if marks else piece
        if len(word) >= 3 and word.isalpha() and word.islower():
            found[word] = number
    return found


def others(model: Transformer, tokenizer: AnyTokenizer, noun: str, besides: Sequence[str], count: int) -> list[str]:
    """Words to try in a noun's place: those whose embeddings are nearest, and some by chance, always the same.

    In a model's embeddings words of one gender lie together; those by chance bring the others.
    """
    known = vocabulary(tokenizer)
    left = [word for word in known if word not in STOPS and word not in " ".join(besides).lower().split()]
    table = model.encoder.embedding.weight.detach().float()
    own = _middle(tokenizer, noun)
    like = torch.nn.functional.normalize(table[own].mean(0), dim=0)
    rows = torch.nn.functional.normalize(table[[known[word] for word in left]], dim=1)
    order = (rows @ like).argsort(descending=True, stable=True).tolist() if left else []
    near = [left[i] for i in order[: round(NEAREST * count)]]
    pick = random.Random(f"others {noun}")
    far = pick.sample(left, min(count - len(near), len(left)))
    return list(dict.fromkeys([*near, *far]))


def _middle(tokenizer: AnyTokenizer, text: str) -> list[int]:
    """The ids of a text without what stands around every text."""
    around, ids = tokenizer.encode("", "source"), tokenizer.encode(text, "source")
    return [i for i in ids if i not in around] or ids
