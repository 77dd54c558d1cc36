"""What a question costs: translations, counted before the model is asked."""

from collections.abc import Sequence

from glassformer.coreference.resolve_pronoun import PROBES, TRIES
from glassformer.coreference.source_words import content_words, find, noun_phrases
from glassformer.errors import InputError

FEWEST = 12
"""Words tried in a noun's place; with fewer, a pronoun that follows is hardly told from chance."""


def translations(text: str, word: str, candidates: Sequence[str] | None, swapped: bool, tries: int) -> int:
    """How many `who_is` asks for, at most. `swapped`: whether the second sentence is given."""
    spot = find(text, word)
    phrases = noun_phrases(text, spot) if candidates is None else []
    nouns = len(phrases) if candidates is None else len(candidates)
    probing = sum(PROBES * len(lengths) for lengths in phrases if len(lengths) > 1)
    looking = 0 if swapped else len(content_words(text)) * (tries // 2)
    return probing + 2 * (1 + nouns * tries) + looking


def tries_within(most: int, text: str, word: str, candidates: Sequence[str] | None, swapped: bool) -> int:
    """So many words tried in each place that no more than `most` translations are asked for."""
    for tries in range(TRIES, FEWEST - 1, -1):
        if translations(text, word, candidates, swapped, tries) <= most:
            return tries
    least = translations(text, word, candidates, swapped, FEWEST)
    raise InputError(
        f"To find out who {word!r} is would take {least:,} translations, and {most:,} are allowed: "
        "ask about a shorter sentence, or name two candidates and the word that differs."
    )
