"""Pronoun resolution: translates a sentence and variants of it, and collects evidence for each candidate antecedent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.errors import InputError
from glassformer.inspection.coreference.internal_evidence import internal_evidence
from glassformer.inspection.coreference.noun_substitution import (
    Slot,
    SubstitutionResult,
    alternatives,
    count_following,
    find_pronoun,
    normalised,
    slot,
)
from glassformer.inspection.coreference.pronoun_evidence import PronounEvidence
from glassformer.inspection.coreference.source_words import (
    WordSpan,
    content_words,
    find_word,
    noun_phrases,
    substitute_words,
)
from glassformer.inspection.coreference.verdict import PronounReading, PronounVerdict, with_pronouns
from glassformer.translator import Translator

PROBE_WORDS = 24
"""Number of substitutes tried to find how many words a noun has."""
LONGER_NOUN_RATIO = 1.3
"""How many times more substitutes must fit two words than one for the two to count as one noun."""
DEFAULT_TRIES = 84
"""Default number of substitutes tried per noun."""


@dataclass(frozen=True)
class PronounQuestion:
    """A translator with the options of `Inspector.resolve_pronoun`; its methods collect the evidence."""

    translator: Translator
    pronouns: Sequence[str]
    own_pronouns: Mapping[str, str]
    nouns: Sequence[str] | None
    tries: int

    @cached_property
    def tokenizer(self) -> AnyTokenizer:
        """The translator's tokenizer; pronouns need one, because other sentences are translated."""
        tokenizer = self.translator.tokenizer
        if isinstance(tokenizer, IdsOnly):
            tokenizer.encode("", "source")  # raises the error about the missing tokenizer
            raise AssertionError
        return tokenizer

    def resolve(
        self, text: str, word: str, candidates: Sequence[str] | None, swap: tuple[str, str] | None
    ) -> PronounVerdict:
        """Read the sentence, and a second one in which the pronoun refers to another candidate."""
        readings = [self.read(text, find_word(text, word), candidates)]
        searched = swap is None
        swap = swap or self.second_sentence(readings[0])
        if swap is not None:
            second = find_word(text, swap[0]).replaced(text, swap[1])
            names = [swap[1] if name == swap[0] else name for name in readings[0].candidates]
            readings.append(self.read(second, find_word(second, word), names))
        candidate_pronouns = {
            reading.candidates[reading.verdict]: reading.pronoun
            for reading in reversed(readings)
            if reading.verdict is not None and reading.pronoun is not None
        }
        candidate_pronouns |= {name: normalised(pronoun) for name, pronoun in self.own_pronouns.items()}
        scored = [self.scored(reading, list(candidate_pronouns.values())) for reading in readings]
        return PronounVerdict([with_pronouns(reading, candidate_pronouns) for reading in scored], swap, searched)

    def read(self, text: str, word: WordSpan, candidates: Sequence[str] | None) -> PronounReading:
        """Translate a sentence and collect the evidence for each candidate of a pronoun."""
        [answer] = self.translator.translations([text])[0].candidates[:1]
        spans = self._candidates(text, word, candidates, answer.text)
        slots = [self._slot(text, span, spans, answer.text) for span in spans]
        index = self._pronoun_index(slots, answer.text)
        scores = {} if index is None else self._scores(text, answer.text, index, self._choices(slots, index))
        evidence = internal_evidence(self.translator, self.tokenizer, text, answer, word, spans, index)
        if index is not None:
            evidence.append(following_evidence([count_following(slot, index) for slot in slots]))
        names = [span.text for span in spans]
        return PronounReading(text, answer.text, word.text, names, index, scores, [None] * len(names), evidence)

    def _candidates(self, text: str, word: WordSpan, named: Sequence[str] | None, translation: str) -> list[WordSpan]:
        if named is not None:
            spans = [find_word(text, name) for name in named]
        else:
            spans = [self._whole_noun(text, phrases, translation) for phrases in noun_phrases(text, word)]
            spans = list({span.text.lower(): span for span in reversed(spans)}.values())[::-1]
        if len(spans) < 2 or any(span.start == word.start for span in spans):
            names = ", ".join(repr(span.text) for span in spans) or "none"
            raise InputError(
                f"At least two candidates are needed for {word.text!r}; found: {names}. Give two nouns of the sentence "
                "as candidates, such as animal and street."
            )
        return spans

    def _whole_noun(self, text: str, phrases: Sequence[WordSpan], translation: str) -> WordSpan:
        """The full extent of a noun: the phrase that single words can replace without changing the rest."""
        if len(phrases) == 1:
            return phrases[0]

        def fitting(span: WordSpan) -> int:
            probe = self._slot(text, span, [span], translation, PROBE_WORDS)
            return len({variant.words[probe.column] for variant in probe.clean if probe.column is not None})

        best, fit = phrases[0], fitting(phrases[0])
        for longer in phrases[1:]:
            if (more := fitting(longer)) > LONGER_NOUN_RATIO * fit:
                best, fit = longer, more
        return best

    def _slot(
        self, text: str, span: WordSpan, spans: Sequence[WordSpan], translation: str, limit: int | None = None
    ) -> Slot:
        """Translate the sentence with substitutes for one noun."""
        besides = [candidate.text for candidate in spans]
        if self.nouns is not None:
            nouns = [noun for noun in self.nouns if noun not in besides]
        else:
            nouns = substitute_words(self.translator.model, self.tokenizer, span.text, besides, self.tries)
        nouns = nouns[:limit]
        return slot(translation, nouns, self.translator.translate([span.replaced(text, noun) for noun in nouns]))

    def _pronoun_index(self, slots: Sequence[Slot], translation: str) -> int | None:
        if not self.pronouns:
            return find_pronoun(slots)
        pronouns = [normalised(pronoun) for pronoun in self.pronouns]
        given = [i for i, word in enumerate(translation.split()) if normalised(word) in pronouns]
        if not given:
            raise InputError(
                f"The translation {translation!r} contains none of the pronouns {', '.join(self.pronouns)}. Give the "
                "pronouns that this translation may contain."
            )
        index = find_pronoun(slots, given)
        return given[0] if index is None else index

    def scored(self, reading: PronounReading, pronouns: Sequence[str]) -> PronounReading:
        """The reading with scores for these pronouns added."""
        new = [word for word in pronouns if word not in reading.scores]
        if reading.pronoun_index is None or not new:
            return reading
        more = self._scores(reading.source, reading.translation, reading.pronoun_index, new)
        return replace(reading, scores=reading.scores | more)

    def _choices(self, slots: Sequence[Slot], index: int) -> list[str]:
        """Possible pronouns: the original and those given; without given ones, also those of the variants."""
        given = map(normalised, (*self.pronouns, *self.own_pronouns.values()))
        variants = () if self.pronouns else alternatives(slots, index)
        return list(dict.fromkeys([slots[0].before[index], *given, *variants]))

    def _scores(self, text: str, translation: str, index: int, choices: Sequence[str]) -> dict[str, float]:
        """As in ContraPro, score the translation with each alternative in place of the pronoun (arXiv:1810.02268)."""
        words = translation.split()
        texts = [" ".join([*words[:index], _like(words[index], choice), *words[index + 1 :]]) for choice in choices]
        scored = self.translator.score([text] * len(texts), texts)
        return {choice: sum(answer.log_probabilities) for choice, answer in zip(choices, scored, strict=True)}

    def second_sentence(self, reading: PronounReading) -> tuple[str, str] | None:
        """A word and a replacement that changes the pronoun while all nouns stay the same.

        The pronoun then refers to another candidate. Of several, the one with the most likely translation.
        """
        text, words = reading.source, [normalised(word) for word in reading.translation.split()]
        index = reading.pronoun_index
        if index is None:
            return None
        nouns = " ".join(reading.candidates).lower().split()
        tried = [
            (span, other)
            for span in content_words(text)
            if span.text.lower() not in nouns
            for other in substitute_words(self.translator.model, self.tokenizer, span.text, nouns, self.tries // 2)
        ]
        sentences = [span.replaced(text, other) for span, other in tried]
        swaps: list[tuple[float, tuple[str, str]]] = []
        for (span, other), translation in zip(tried, self.translator.translations(sentences), strict=True):
            new = [normalised(word) for word in translation.text.split()]
            changed = [i for i, (a, b) in enumerate(zip(words, new, strict=False)) if a != b]
            if len(new) == len(words) and index in changed and len(changed) == 2 and new[index] in reading.scores:
                swaps.append((translation.candidates[0].score, (span.text, other)))
        return max(swaps)[1] if swaps else None


def following_evidence(results: Sequence[SubstitutionResult]) -> PronounEvidence:
    """Evidence row: how often the pronoun changes when each candidate is substituted."""
    note = ", ".join(f"{result.followed} of {result.shown}" for result in results)
    shares = [result.share for result in results]
    return PronounEvidence("following", "pronoun follows the replaced noun", shares, note=note)


def _like(old: str, word: str) -> str:
    """A word with the punctuation and capitalisation of the one that it replaces."""
    bare = normalised(old)
    start = old.casefold().find(bare)
    cased = word[:1].upper() + word[1:] if old.strip("„“«»\"'(")[:1].isupper() else word
    return f"{old[:start]}{cased}{old[start + len(bare) :]}"
