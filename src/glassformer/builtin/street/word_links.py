"""Which English word of a sentence is which German one: both were made from the same plot, so it is known.

Sure links are those of nouns with their articles, verbs, adjectives, pronouns, conjunctions and signs. Where one word
does the work of two (didn't = tense and "nicht"), the looser link is possible. Words of both sides are counted with
signs apart.
"""

import re
from collections.abc import Iterable, Sequence

from glassformer.builtin.street.grammar import Plot, Sentence
from glassformer.builtin.street.lexicon import Noun

Pairs = frozenset[tuple[int, int]]
SMALL_WORDS = {"because": "weil", "although": "obwohl", "yesterday": "gestern", "today": "heute"}


def words(text: str) -> list[str]:
    """The words and signs of a sentence of the street."""
    return re.findall(r"[\w'-]+|[.,]", text)


def links(sentence: Sentence) -> tuple[Pairs, Pairs]:
    """The sure links, and the possible ones with them: (English place, German place)."""
    english, german = (words(side.lower()) for side in (sentence.source, sentence.target))
    plot = sentence.plot
    sure = {
        *_noun(plot.mover, english, german),
        *_noun(plot.place, english, german),
        *_state(plot, english, german),
        *_small_words(english, german),
        *_signs(english, german),
    }
    verb, loose = _verb(plot, english, german)
    sure |= verb
    if sentence.pronoun:
        sure.add((english.index("it"), german.index(sentence.pronoun)))
    if "that" in english:  # the only shape in which German has two commas: the pronoun stands behind the first
        sure.add((english.index("that"), german.index(",") + 1))
    return frozenset(sure), frozenset(sure | loose | _lonely_commas(english, german))


def _find(part: Sequence[str], text: Sequence[str]) -> int:
    """Where words stand in a text, one behind the other."""
    return next(i for i in range(len(text)) if list(text[i : i + len(part)]) == list(part))


def _across(ones: Iterable[int], others: Iterable[int]) -> set[tuple[int, int]]:
    others = list(others)
    return {(one, other) for one in ones for other in others}


def _noun(noun: Noun, english: list[str], german: list[str]) -> set[tuple[int, int]]:
    own = noun.english.split()
    first, there = _find(["the", *own], english), german.index(noun.german.lower())
    return {(first, there - 1)} | _across(range(first + 1, first + 1 + len(own)), [there])


def _state(plot: Plot, english: list[str], german: list[str]) -> set[tuple[int, int]]:
    """was too tired = zu müde war; a sentence may do without."""
    ours = [*plot.degree[0].split(), *plot.reason.english.split()]
    theirs = [*plot.degree[1].split(), *plot.reason.german.split()]
    was = [plot.tense.was, *ours]
    if not any(english[i : i + len(was)] == was for i in range(len(english))):
        return set()
    here, there = _find(was, english), _find(theirs, german)
    return {(here, german.index(plot.tense.war))} | {(here + 1 + i, there + i) for i in range(len(ours))}


def _verb(plot: Plot, english: list[str], german: list[str]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """What is done or not done: sure links, and loose ones."""
    verb, tense, mover = plot.verb, plot.tense, plot.mover.english.split()
    negated = "nicht" in german
    ours = f"{tense.not_english} {verb.english}".split() if negated else tense.english(verb).split()
    begin = _find([*mover, *ours], english) + len(mover)
    at = {word: begin + i for i, word in enumerate(ours)}
    main = begin + len(ours) - 1
    finite, last = _german_verb(plot, german)
    helped = tense.last(verb) == verb.infinitive
    sure = _across([main], last if helped else [*finite, *last])
    loose: set[tuple[int, int]] = set()
    helpers = [word for word in ours[:-1] if word not in ("to", "not")]
    if helped:
        sure |= _across([at[word] for word in helpers if word != "didn't"], finite)
        loose |= _across([at[word] for word in ("to", "didn't") if word in at], [*finite, *last])
    else:
        loose |= _across([at[word] for word in helpers], finite)  # "did" has the tense
    if negated:
        no = next(word for word in ours if word == "not" or word.endswith("n't"))
        sure.add((at[no], german.index("nicht")))
    return sure, loose


def _german_verb(plot: Plot, german: list[str]) -> tuple[list[int], list[int]]:
    """Where the finite verb stands, and where the rest of it does: outside of the reason, which may have a verb too."""
    reason = plot.reason.german.split()
    taken = {
        place + i
        for place in range(len(german))
        if german[place : place + len(reason)] == reason
        for i in range(len(reason))
    }
    finite, last = plot.tense.finite(plot.verb), plot.tense.last(plot.verb)
    free = [(i, word) for i, word in enumerate(german) if i not in taken]
    joined = [i for i, word in free if last and word == last + finite]  # ablehnte
    if joined:
        return joined, []
    return [i for i, word in free if word == finite][:1], [i for i, word in free if last and word == last][-1:]


def _small_words(english: list[str], german: list[str]) -> set[tuple[int, int]]:
    found = {(english.index(one), german.index(other)) for one, other in SMALL_WORDS.items() if one in english}
    if "also" in german:  # "..., so the animal": the "so" behind the comma
        found.add((english.index(",") + 1, german.index("also")))
    return found


def _signs(english: list[str], german: list[str]) -> set[tuple[int, int]]:
    """Full stops in their order, and commas where English has one."""
    stops = zip(*([i for i, word in enumerate(side) if word == "."] for side in (english, german)), strict=True)
    commas = {(english.index(","), german.index(","))} if "," in english else set()
    return {*stops, *commas}


def _lonely_commas(english: list[str], german: list[str]) -> set[tuple[int, int]]:
    """A comma that English does without may go with the word that brings it about."""
    if "," in english:
        return set()
    causes = [i for i, word in enumerate(english) if word in ("because", "although", "that")]
    return _across(causes, (i for i, word in enumerate(german) if word == ","))
