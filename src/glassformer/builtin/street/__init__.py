"""The built-in corpus: English-German sentence pairs from a grammar. No noun pair of the test split is in training."""

import hashlib
import random
from collections.abc import Iterator
from typing import Literal

from glassformer.builtin.street.grammar import PLACE_TEMPLATES, PRONOUNS, TEMPLATES, TENSES, Plot, Sentence
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
"""Two sentences that differ in one word and in the referent of "it", with translations. Both are in the test split."""


def sentences(split: Split, count: int, seed: int = 0) -> Iterator[Sentence]:
    """`count` distinct sentences of a split; the same ones for the same seed, on every machine."""
    pick = random.Random(f"street {split} {seed}")
    pairs = [(mover, place) for mover in MOVERS for place in PLACES if split_of(mover, place) == split]
    seen: set[str] = set()
    while len(seen) < count:
        sentence = _random_sentence(pick, *pick.choice(pairs))
        if sentence.source not in seen:
            seen.add(sentence.source)
            yield sentence


def split_of(mover: Noun, place: Noun) -> Split:
    """The split of a noun pair: eight tenths of all pairs are for training, and no pair is in two splits."""
    if (mover.english, place.english) == ("animal", "street"):
        return "test"
    tenth = hashlib.sha256(f"{mover.english}/{place.english}".encode()).digest()[0] % 10
    return "test" if tenth == 0 else "dev" if tenth == 1 else "train"


def pronouns(german: str) -> list[str]:
    """The pronouns of a German sentence in order; comparing them shows whether a translation has the right referent."""
    words = (word.strip(".,").lower() for word in german.split())
    return [word for word in words if word in PRONOUNS]


def _random_sentence(pick: random.Random, mover: Noun, place: Noun) -> Sentence:
    verb, reason = pick.choice(VERBS), pick.choice(REASONS)
    tense = pick.choice(TENSES if verb.is_voluntary else TENSES[:-2])
    degree = pick.choice([("very", "sehr"), ("so", "so"), ("too", "zu") if reason.against else ("", "")])
    template = pick.choice(TEMPLATES if reason.of == "mover" else PLACE_TEMPLATES)
    return template(Plot(mover, place, verb, reason, tense, degree))
