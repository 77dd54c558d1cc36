"""The built-in corpus: English-German sentences made by a grammar, split so that the test asks about noun pairs never
seen together in training.
"""

import hashlib
import random
from collections.abc import Iterator
from typing import Literal

from glassformer.builtin.street.grammar import PRONOUNS, SHAPES, SHAPES_ABOUT_PLACES, TENSES, Plot, Sentence
from glassformer.builtin.street.lexicon import MOVERS, PLACES, REASONS, VERBS, Noun

__all__ = ["PRONOUN_EXAMPLES", "Plot", "Sentence", "Split", "pronouns", "sentences", "split_of"]

Split = Literal["train", "dev", "test"]

PRONOUN_EXAMPLES = {
    "The animal didn't cross the street because it was too tired.": (
        "Das Tier überquerte die Straße nicht, weil es zu müde war."
    ),
    "The animal didn't cross the street because it was too wide.": (
        "Das Tier überquerte die Straße nicht, weil sie zu breit war."
    ),
}
"""The sentence that the whole project began with, and its twin. Both belong to the test."""


def sentences(split: Split, count: int, seed: int = 0) -> Iterator[Sentence]:
    """So many different sentences of a split; the same ones for the same seed, on every machine."""
    pick = random.Random(f"street {split} {seed}")
    pairs = [(mover, place) for mover in MOVERS for place in PLACES if split_of(mover, place) == split]
    seen: set[str] = set()
    while len(seen) < count:
        sentence = _any(pick, *pick.choice(pairs))
        if sentence.source not in seen:
            seen.add(sentence.source)
            yield sentence


def split_of(mover: Noun, place: Noun) -> Split:
    """Where a pair of nouns belongs: eight tenths of all pairs are for training, and no sentence crosses over."""
    if (mover.english, place.english) == ("animal", "street"):
        return "test"
    tenth = hashlib.sha256(f"{mover.english}/{place.english}".encode()).digest()[0] % 10
    return "test" if tenth == 0 else "dev" if tenth == 1 else "train"


def pronouns(german: str) -> list[str]:
    """The pronouns of a German sentence in order: a translation has the right ones, or it has not understood."""
    words = (word.strip(".,").lower() for word in german.split())
    return [word for word in words if word in PRONOUNS]


def _any(pick: random.Random, mover: Noun, place: Noun) -> Sentence:
    verb, reason = pick.choice(VERBS), pick.choice(REASONS)
    tense = pick.choice(TENSES if verb.is_a_choice else TENSES[:-2])
    degree = pick.choice([("very", "sehr"), ("so", "so"), ("too", "zu") if reason.against else ("", "")])
    shape = pick.choice(SHAPES if reason.of == "mover" else SHAPES_ABOUT_PLACES)
    return shape(Plot(mover, place, verb, reason, tense, degree))
