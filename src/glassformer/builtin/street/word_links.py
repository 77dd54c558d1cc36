"""Gold word alignments of the street corpus: both sides come from the same plot, so the links are known.

Sure links: nouns with their articles, verbs, adjectives, pronouns, conjunctions and punctuation. Where one word has the
function of two (didn't = tense and "nicht"), the weaker link is a possible one. Punctuation marks count as words.
"""

import re
from collections.abc import Iterable, Sequence

from glassformer.builtin.street.grammar import Plot, Sentence
from glassformer.builtin.street.lexicon import Noun

Pairs = frozenset[tuple[int, int]]
FUNCTION_WORDS = {"because": "weil", "although": "obwohl", "yesterday": "gestern", "today": "heute"}


def words(text: str) -> list[str]:
    """The words and punctuation marks of a street sentence."""
    return re.findall(r"[\w'-]+|[.,]", text)


def links(sentence: Sentence) -> tuple[Pairs, Pairs]:
    """Gold word links of a sentence pair: the sure ones, and all possible ones; (English, German) word indices."""
    english, german = (words(side.lower()) for side in (sentence.source, sentence.target))
    plot = sentence.plot
    sure = {
        *_noun(plot.mover, english, german),
        *_noun(plot.place, english, german),
        *_predicate(plot, english, german),
        *_function_words(english, german),
        *_punctuation(english, german),
    }
    sure_verb, possible_verb = _verb(plot, english, german)
    sure |= sure_verb
    if sentence.pronoun:
        sure.add((english.index("it"), german.index(sentence.pronoun)))
    if "that" in english:  # the only template with two commas in German: the relative pronoun follows the first
        sure.add((english.index("that"), german.index(",") + 1))
    return frozenset(sure), frozenset(sure | possible_verb | _german_only_commas(english, german))


def _occurrences(words: Sequence[str], text: Sequence[str]) -> list[int]:
    """The indices at which consecutive words occur in a text."""
    return [i for i in range(len(text)) if list(text[i : i + len(words)]) == list(words)]


def _product(english: Iterable[int], german: Iterable[int]) -> set[tuple[int, int]]:
    """All links between two sets of word indices."""
    german = list(german)
    return {(one, other) for one in english for other in german}


def _noun(noun: Noun, english: list[str], german: list[str]) -> set[tuple[int, int]]:
    noun_words = noun.english.split()
    article, german_noun = _occurrences(["the", *noun_words], english)[0], german.index(noun.german.lower())
    return {(article, german_noun - 1)} | _product(range(article + 1, article + 1 + len(noun_words)), [german_noun])


def _predicate(plot: Plot, english: list[str], german: list[str]) -> set[tuple[int, int]]:
    """Links of the predicate, "was too tired" = "zu müde war"; empty if the sentence has no predicate."""
    english_words = [*plot.degree[0].split(), *plot.reason.english.split()]
    german_words = [*plot.degree[1].split(), *plot.reason.german.split()]
    was = _occurrences([plot.tense.was, *english_words], english)
    if not was:
        return set()
    here, there = was[0], _occurrences(german_words, german)[0]
    return {(here, german.index(plot.tense.war))} | {(here + 1 + i, there + i) for i in range(len(english_words))}


def _verb(plot: Plot, english: list[str], german: list[str]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The sure and the possible links of the main verb and its auxiliaries."""
    verb, tense, mover = plot.verb, plot.tense, plot.mover.english.split()
    negated = "nicht" in german
    verb_words = f"{tense.english_negation} {verb.english}".split() if negated else tense.english(verb).split()
    begin = _occurrences([*mover, *verb_words], english)[0] + len(mover)
    index = {word: begin + i for i, word in enumerate(verb_words)}
    main = begin + len(verb_words) - 1
    finite, last = _german_verb(plot, german)
    has_auxiliary = tense.last(verb) == verb.infinitive
    sure = _product([main], last if has_auxiliary else [*finite, *last])
    possible: set[tuple[int, int]] = set()
    auxiliaries = [word for word in verb_words[:-1] if word not in ("to", "not")]
    if has_auxiliary:
        sure |= _product([index[word] for word in auxiliaries if word != "didn't"], finite)
        possible |= _product([index[word] for word in ("to", "didn't") if word in index], [*finite, *last])
    else:
        possible |= _product([index[word] for word in auxiliaries], finite)  # "did" carries the tense
    if negated:
        negation = next(word for word in verb_words if word == "not" or word.endswith("n't"))
        sure.add((index[negation], german.index("nicht")))
    return sure, possible


def _german_verb(plot: Plot, german: list[str]) -> tuple[list[int], list[int]]:
    """Indices of the German finite verb and of the rest of the verb, outside the reason, which may have a verb too."""
    reason = plot.reason.german.split()
    in_reason = {start + i for start in _occurrences(reason, german) for i in range(len(reason))}
    finite, last = plot.tense.finite(plot.verb), plot.tense.last(plot.verb)
    outside = [(i, word) for i, word in enumerate(german) if i not in in_reason]
    joined = [i for i, word in outside if last and word == last + finite]  # ablehnte
    if joined:
        return joined, []
    return [i for i, word in outside if word == finite][:1], [i for i, word in outside if last and word == last][-1:]


def _function_words(english: list[str], german: list[str]) -> set[tuple[int, int]]:
    links = {(english.index(one), german.index(other)) for one, other in FUNCTION_WORDS.items() if one in english}
    if "also" in german:  # "..., so the animal": the "so" after the comma
        links.add((english.index(",") + 1, german.index("also")))
    return links


def _punctuation(english: list[str], german: list[str]) -> set[tuple[int, int]]:
    """Links between punctuation marks: full stops in order, and the comma if English has one."""
    stops = zip(*([i for i, word in enumerate(side) if word == "."] for side in (english, german)), strict=True)
    commas = {(english.index(","), german.index(","))} if "," in english else set()
    return {*stops, *commas}


def _german_only_commas(english: list[str], german: list[str]) -> set[tuple[int, int]]:
    """Possible links of commas that only German has, to the English conjunction or relative pronoun."""
    if "," in english:
        return set()
    conjunctions = [i for i, word in enumerate(english) if word in ("because", "although", "that")]
    return _product(conjunctions, (i for i, word in enumerate(german) if word == ","))
