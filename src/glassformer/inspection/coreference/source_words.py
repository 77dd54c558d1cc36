"""Words of a source sentence: their positions in the text and among the tokens, and possible substitutes.

Works on texts, tokenizers and embeddings, independent of attention.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.data import AnyTokenizer
from glassformer.data.word_spans import marks_of, words
from glassformer.errors import InputError
from glassformer.inspection.explanation.token_lookup import WORD_START_MARKS, occurrence
from glassformer.model import Transformer

DETERMINERS = frozenset(
    {
        *("a", "an", "the", "this", "these", "those", "my", "your", "his", "her", "its", "our", "their"),
        *("some", "any", "every", "each", "no", "another"),
    }
)
"""English words after which a noun is expected; "that" is more often something else.

In other languages, candidates must be given."""
STOPS = DETERMINERS | {
    *("it", "he", "she", "they", "him", "them", "that", "who", "which", "what"),
    *("and", "or", "but", "because", "so", "although"),
}
"""Words at which a noun phrase ends."""
MAX_NOUN_WORDS = 3
NEAREST_SHARE = 0.3
"""Share of the substitutes chosen by embedding similarity; the others are chosen at random."""


@dataclass(frozen=True)
class WordSpan:
    """A word, or a few consecutive ones, in a source sentence."""

    text: str
    """The words as written in the sentence."""
    start: int
    """Position of the first character in the sentence."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def replaced(self, sentence: str, word: str) -> str:
        """The sentence with another word in place of this one."""
        return f"{sentence[: self.start]}{_cased(word, self.text)}{sentence[self.end :]}"


def _cased(word: str, like: str) -> str:
    return word[:1].upper() + word[1:] if like[:1].isupper() and len(like) > 1 and not like.isupper() else word


def find_word(sentence: str, name: str) -> WordSpan:
    """Find a word by its text; "it#2" is its second occurrence."""
    text, number = occurrence(name)
    matches = list(re.finditer(rf"(?<!\w){re.escape(text.strip())}(?!\w)", sentence, re.IGNORECASE))
    if not text.strip() or not matches:
        raise InputError(f"There is no word {text!r} in {sentence!r}.")
    if number >= len(matches):
        times = "once" if len(matches) == 1 else f"{len(matches)} times"
        raise InputError(f"There is no {name!r}: {text!r} occurs only {times} in {sentence!r}.")
    return WordSpan(matches[number][0], matches[number].start())


def noun_phrases(sentence: str, word: WordSpan) -> list[list[WordSpan]]:
    """Candidate nouns: for each determiner, the one, two and three words after it, up to the end of the phrase."""
    spans = _word_spans(sentence)
    phrases = []
    for i, determiner in enumerate(spans[:-1]):
        if determiner.text.lower() not in DETERMINERS or determiner.start == word.start:
            continue
        lengths = []
        for j in range(i + 1, min(i + 1 + MAX_NOUN_WORDS, len(spans))):
            between = sentence[spans[j - 1].end : spans[j].start]
            if spans[j].text.lower() in STOPS or between.strip() or spans[j].start == word.start:
                break
            first = spans[i + 1].start
            lengths.append(WordSpan(sentence[first : spans[j].end], first))
        if lengths:
            phrases.append(lengths)
    return phrases


def content_words(sentence: str) -> list[WordSpan]:
    """The words other than determiners, pronouns and conjunctions."""
    return [span for span in _word_spans(sentence) if span.text.lower() not in STOPS]


def _word_spans(sentence: str) -> list[WordSpan]:
    return [WordSpan(match[0], match.start()) for match in re.finditer(r"\w+(?:['’-]\w+)*", sentence)]


def tokens_of(span: WordSpan, sentence: str, pieces: Sequence[str], tokenizer: AnyTokenizer) -> list[int]:
    """Token positions of a word of the source sentence."""
    before = len(_texts(sentence[: span.start]))
    count = len(_texts(span.text))
    token_words = [word for word in words(pieces, marks_of(tokenizer)) if _texts(word.text)]
    matched = token_words[before : before + count]
    if [text for word in matched for text in _texts(word.text)] != _texts(span.text):
        raise InputError(f"{span.text!r} is not made of whole words: the sentence's tokens are: {' '.join(pieces)}.")
    return [position for word in matched for position in range(word.first, word.end)]


def _texts(text: str) -> list[str]:
    """The words of a text, split in the same way as words of tokens (`word_spans`)."""
    return re.findall(r"\w+(?:[^\w\s]+\w+)*", text)


def vocabulary(tokenizer: AnyTokenizer) -> dict[str, int]:
    """Words that are a single source token, with their ids: lower-case, at least three letters."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")
    marks = [mark for mark in WORD_START_MARKS if any(piece.startswith(mark) and len(piece) > 1 for piece in pieces)]
    mark = marks[0] if marks else ""
    ids = {piece.removeprefix(mark): number for number, piece in enumerate(pieces) if piece.startswith(mark)}
    return {word: number for word, number in ids.items() if len(word) >= 3 and word.isalpha() and word.islower()}


def substitute_words(
    model: Transformer, tokenizer: AnyTokenizer, noun: str, besides: Sequence[str], count: int
) -> list[str]:
    """Substitutes for a noun: the words with the nearest embeddings, and a random sample; deterministic.

    Embeddings of words of one gender are close to each other; the random sample adds the other genders.
    """
    known = vocabulary(tokenizer)
    eligible = [word for word in known if word not in STOPS and word not in " ".join(besides).lower().split()]
    table = model.encoder.embedding.weight.detach().float()
    noun_embedding = torch.nn.functional.normalize(table[_content_ids(tokenizer, noun)].mean(0), dim=0)
    embeddings = torch.nn.functional.normalize(table[[known[word] for word in eligible]], dim=1)
    order = (embeddings @ noun_embedding).argsort(descending=True, stable=True).tolist() if eligible else []
    nearest = [eligible[i] for i in order[: round(NEAREST_SHARE * count)]]
    generator = random.Random(f"others {noun}")
    sampled = generator.sample(eligible, min(count - len(nearest), len(eligible)))
    return list(dict.fromkeys([*nearest, *sampled]))


def _content_ids(tokenizer: AnyTokenizer, text: str) -> list[int]:
    """The ids of a text without the special tokens around every text."""
    around, ids = tokenizer.encode("", "source"), tokenizer.encode(text, "source")
    return [i for i in ids if i not in around] or ids
