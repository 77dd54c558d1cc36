"""Asking a translator: the sentence, variants of it, and what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glassformer.coreference.internal_evidence import inside
from glassformer.coreference.noun_substitution import (
    Slot,
    SubstitutionResult,
    alternatives,
    following,
    normal,
    pronoun_place,
    slot,
)
from glassformer.coreference.pronoun_evidence import PronounEvidence
from glassformer.coreference.source_words import WordSpan, content_words, find, noun_phrases, others
from glassformer.coreference.verdict import PronounReading, PronounVerdict, with_pronouns
from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.errors import InputError
from glassformer.translator import Translator

PROBES = 24
"""Words tried in a noun's place to see how far the noun goes."""
LONGER = 1.3
"""How many times more nouns must fit in place of two words than of one, if the two are to be one noun."""
TRIES = 84
"""Words tried in a noun's place."""


def resolve_pronoun(
    translator: Translator,
    text: str,
    word: str = "it",
    candidates: Sequence[str] | None = None,
    swap: tuple[str, str] | None = None,
    pronouns: Sequence[str] | None = None,
    own_pronouns: dict[str, str] | None = None,
    nouns: Sequence[str] | None = None,
    tries: int = TRIES,
) -> PronounVerdict:
    """Which of the candidates this model takes a word for, by all evidence there is.

    `candidates`: nouns of the sentence; without them, those behind an English determiner.
    `swap`: a word, and what stands there in a second sentence; without it, one with which the pronoun is another.
    `pronouns`: what the word may become; else whatever follows the nouns.
    `own_pronouns`: candidate -> its pronoun; else the one of the sentence in which the word is taken for it.
    `nouns`: words to try in the candidates' places; else `tries` words of the model's own vocabulary.
    """
    tokenizer = translator.tokenizer
    if isinstance(tokenizer, IdsOnly):
        tokenizer.encode(text, "source")  # says what is missing
        raise AssertionError
    asking = PronounQuestion(translator, tokenizer, pronouns or (), own_pronouns or {}, nouns, tries)
    readings = [asking.read(text, find(text, word), candidates)]
    found = swap is None
    swap = swap or asking.otherwise(readings[0])
    if swap is not None:
        other = find(text, swap[0]).replaced(text, swap[1])
        names = [swap[1] if name == swap[0] else name for name in readings[0].candidates]
        readings.append(asking.read(other, find(other, word), names))
    own = {
        reading.candidates[reading.verdict]: reading.pronoun
        for reading in reversed(readings)
        if reading.verdict is not None and reading.pronoun is not None
    }
    own |= {name: normal(pronoun) for name, pronoun in (own_pronouns or {}).items()}
    return PronounVerdict(
        [with_pronouns(asking.scored(reading, list(own.values())), own) for reading in readings], swap, found
    )


@dataclass(frozen=True)
class PronounQuestion:
    """A translator, and what its user already says."""

    translator: Translator
    tokenizer: AnyTokenizer
    pronouns: Sequence[str]
    own_pronouns: dict[str, str]
    nouns: Sequence[str] | None
    tries: int

    def read(self, text: str, word: WordSpan, candidates: Sequence[str] | None) -> PronounReading:
        """One sentence's table."""
        [answer] = self.translator.answer([text])[0].answers[:1]
        spots = self._candidates(text, word, candidates, answer.text)
        slots = [self._slot(text, spot, spots, answer.text) for spot in spots]
        place = self._place(slots, answer.text)
        scores = {} if place is None else self._scores(text, answer.text, place, self._choices(slots, place))
        evidence = inside(self.translator, self.tokenizer, text, answer, word, spots, place)
        if place is not None:
            evidence.append(followed([following(own, place) for own in slots]))
        return PronounReading(
            source=text,
            translation=answer.text,
            word=word.text,
            candidates=[spot.text for spot in spots],
            place=place,
            scores=scores,
            own_pronouns=[None] * len(spots),
            evidence=evidence,
        )

    def _candidates(self, text: str, word: WordSpan, named: Sequence[str] | None, translation: str) -> list[WordSpan]:
        if named is not None:
            spots = [find(text, name) for name in named]
        else:
            spots = [self._whole(text, phrases, translation) for phrases in noun_phrases(text, word)]
            spots = list({spot.text.lower(): spot for spot in reversed(spots)}.values())[::-1]
        if len(spots) < 2 or any(spot.start == word.start for spot in spots):
            found = ", ".join(repr(spot.text) for spot in spots) or "none"
            raise InputError(
                f"It takes two candidates at least for {word.text!r}, and found were {found}: name them "
                "(candidates: animal, street)."
            )
        return spots

    def _whole(self, text: str, phrases: Sequence[WordSpan], translation: str) -> WordSpan:
        """How far a noun goes: as far as a single word can take its place and leave all else as it is."""
        if len(phrases) == 1:
            return phrases[0]

        def fitting(spot: WordSpan) -> int:
            own = self._slot(text, spot, [spot], translation, PROBES)
            return len({variant.words[own.column] for variant in own.clean if own.column is not None})

        best, fit = phrases[0], fitting(phrases[0])
        for longer in phrases[1:]:
            if (more := fitting(longer)) > LONGER * fit:
                best, fit = longer, more
        return best

    def _slot(
        self, text: str, spot: WordSpan, spots: Sequence[WordSpan], translation: str, most: int | None = None
    ) -> Slot:
        besides = [one.text for one in spots]
        if self.nouns is not None:
            nouns = [noun for noun in self.nouns if noun not in besides]
        else:
            nouns = others(self.translator.model, self.tokenizer, spot.text, besides, self.tries)
        nouns = nouns[:most]
        return slot(translation, nouns, self.translator.translate([spot.replaced(text, noun) for noun in nouns]))

    def _place(self, slots: Sequence[Slot], translation: str) -> int | None:
        words = [normal(word) for word in translation.split()]
        if not self.pronouns:
            return pronoun_place(slots)
        given = [i for i, word in enumerate(words) if word in map(normal, self.pronouns)]
        if not given:
            raise InputError(f"None of {', '.join(self.pronouns)} stands in the translation {translation!r}.")
        found = pronoun_place(slots, given)
        return given[0] if found is None else found

    def scored(self, reading: PronounReading, pronouns: Sequence[str]) -> PronounReading:
        """The reading with the scores of these pronouns too."""
        new = [word for word in pronouns if word not in reading.scores]
        if reading.place is None or not new:
            return reading
        more = self._scores(reading.source, reading.translation, reading.place, new)
        return replace(reading, scores=reading.scores | more)

    def _choices(self, slots: Sequence[Slot], place: int) -> list[str]:
        """What may stand in the pronoun's place: what was said, else what the variants had."""
        said = [slots[0].before[place], *map(normal, self.pronouns), *map(normal, self.own_pronouns.values())]
        return list(dict.fromkeys([*said, *(() if self.pronouns else alternatives(slots, place))]))

    def _scores(self, text: str, translation: str, place: int, choices: Sequence[str]) -> dict[str, float]:
        """ContraPro's way: the translation with each alternative in the pronoun's place, scored (arXiv:1810.02268)."""
        words = translation.split()
        texts = [" ".join([*words[:place], _like(words[place], one), *words[place + 1 :]]) for one in choices]
        scored = self.translator.score([text] * len(texts), texts)
        return {one: sum(answer.log_probabilities) for one, answer in zip(choices, scored, strict=True)}

    def otherwise(self, reading: PronounReading) -> tuple[str, str] | None:
        """A word, and another in its place with which the pronoun is another one though all nouns are the same.

        Then the word is taken for another candidate. Of several, the one whose translation the model finds likeliest.
        """
        text, words = reading.source, [normal(word) for word in reading.translation.split()]
        place = reading.place
        if place is None:
            return None
        nouns = " ".join(reading.candidates).lower().split()
        spots = [spot for spot in content_words(text) if spot.text.lower() not in nouns]
        tried = [
            (spot, other)
            for spot in spots
            for other in others(self.translator.model, self.tokenizer, spot.text, nouns, self.tries // 2)
        ]
        sentences = [spot.replaced(text, other) for spot, other in tried]
        found: list[tuple[float, tuple[str, str]]] = []
        for (spot, other), translation in zip(tried, self.translator.answer(sentences), strict=True):
            new = [normal(word) for word in translation.text.split()]
            changed = [i for i, (a, b) in enumerate(zip(words, new, strict=False)) if a != b]
            if len(new) == len(words) and place in changed and len(changed) == 2 and new[place] in reading.scores:
                found.append((translation.answers[0].score, (spot.text, other)))
        return max(found)[1] if found else None


def followed(follows: Sequence[SubstitutionResult]) -> PronounEvidence:
    """Whom the pronoun follows."""
    note = ", ".join(f"{one.followed} of {one.shown}" for one in follows)
    return PronounEvidence("following", "the pronoun follows, when replaced", [one.share for one in follows], note=note)


def _like(old: str, word: str) -> str:
    """Another word with the old one's signs around it and its large letter."""
    bare = normal(old)
    start = old.casefold().find(bare)
    cased = word[:1].upper() + word[1:] if old.strip("„“«»\"'(")[:1].isupper() else word
    return f"{old[:start]}{cased}{old[start + len(bare) :]}"
