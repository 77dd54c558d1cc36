"""Cost of a pronoun question: the number of translations, computed in advance."""

from collections.abc import Sequence

from glassformer.errors import InputError
from glassformer.inspection.coreference.resolve_pronoun import DEFAULT_TRIES, PROBE_WORDS
from glassformer.inspection.coreference.source_words import content_words, find_word, noun_phrases

MIN_TRIES = 12
"""Minimum number of substitutes per noun; with fewer, a pronoun that follows can hardly be told from chance."""


def count_translations(text: str, word: str, candidates: Sequence[str] | None, swapped: bool, tries: int) -> int:
    """Maximum number of translations that `resolve_pronoun` needs. `swapped`: whether the second sentence is given."""
    span = find_word(text, word)
    phrases = noun_phrases(text, span) if candidates is None else []
    nouns = len(phrases) if candidates is None else len(candidates)
    noun_lengths = sum(PROBE_WORDS * len(lengths) for lengths in phrases if len(lengths) > 1)
    second_sentence = 0 if swapped else len(content_words(text)) * (tries // 2)
    return noun_lengths + 2 * (1 + nouns * tries) + second_sentence


def tries_within(most: int, text: str, word: str, candidates: Sequence[str] | None, swapped: bool) -> int:
    """The largest number of substitutes per noun that needs at most `most` translations."""
    for tries in range(DEFAULT_TRIES, MIN_TRIES - 1, -1):
        if count_translations(text, word, candidates, swapped, tries) <= most:
            return tries
    needed = count_translations(text, word, candidates, swapped, MIN_TRIES)
    raise InputError(
        f"Resolving {word!r} would take {needed:,} translations; at most {most:,} are allowed. Use a shorter sentence, "
        "or name two nouns that it may refer to (candidates) and a word to replace (swap)."
    )
