"""What comes of a sentence: candidates, evidence, a verdict. It is what this model takes a word for."""

from dataclasses import dataclass, replace
from functools import cached_property

from glassformer.coreference.noun_substitution import normal
from glassformer.coreference.pronoun_evidence import PronounEvidence, decide


@dataclass(frozen=True)
class PronounReading:
    """One sentence, and what this model takes the word for in it."""

    source: str
    translation: str
    word: str
    candidates: list[str]
    place: int | None
    """Which word of the translation is the pronoun; None where no word follows any candidate."""
    scores: dict[str, float]
    """The log-probability of the translation with each alternative in the pronoun's place, in nats."""
    own_pronouns: list[str | None]
    """Which pronoun each candidate has, where that is known."""
    evidence: list[PronounEvidence]

    @property
    def pronoun(self) -> str | None:
        """What the word became."""
        return None if self.place is None else normal(self.translation.split()[self.place])

    @cached_property
    def verdict(self) -> int | None:
        """The candidate; None for "undecided"."""
        return decide(self.evidence)

    @property
    def votes(self) -> tuple[int, int]:
        """How many rows point to the verdict, of those that count and point to anyone."""
        pointing = [row.points_to for row in self.evidence if row.votes and row.points_to is not None]
        return (0 if self.verdict is None else pointing.count(self.verdict)), len(pointing)

    @property
    def preference(self) -> float | None:
        """By how many nats the pronoun is likelier than the best of its alternatives."""
        if self.pronoun is None or len(self.scores) < 2:
            return None
        return self.scores[self.pronoun] - max(value for word, value in self.scores.items() if word != self.pronoun)

    @property
    def in_words(self) -> str:
        """What comes of it, in one sentence or two."""
        agree, of = self.votes
        if self.verdict is None:
            said = f"Undecided: no candidate for {self.word!r} is ahead of the others in this model."
        else:
            name = self.candidates[self.verdict]
            said = f"This model takes {self.word!r} for {name!r}: {agree} of {of} rows point there."
        if self.pronoun is None:
            return f"{said} No word of the translation follows any of them, and that is what decides."
        said = f"{said} It becomes {self.pronoun!r}"
        if self.preference is None:
            return f"{said}, whatever stands in the nouns' places."
        second = max((word for word in self.scores if word != self.pronoun), key=lambda word: self.scores[word])
        behind = "before" if self.preference >= 0 else "behind"
        return f"{said}, {abs(self.preference):.1f} nats {behind} {second!r}."


@dataclass(frozen=True)
class PronounVerdict:
    """What a word is taken for, in a sentence and (if asked) in a second one that differs in a word."""

    readings: list[PronounReading]
    swap: tuple[str, str] | None
    """The word that differs, and what stands there in the second sentence."""
    found: bool
    """Whether the second sentence was looked for, rather than asked for."""


def with_pronouns(reading: PronounReading, own: dict[str, str]) -> PronounReading:
    """The reading with a row of whose pronoun is likelier, where each candidate's is known."""
    pronouns = [own.get(name) for name in reading.candidates]
    values = [reading.scores[word] for word in pronouns if word in reading.scores and word is not None]
    reading = replace(reading, own_pronouns=pronouns)
    if len(values) < len(pronouns):
        return reading
    best = max(reading.scores.values())
    row = PronounEvidence("pronoun", "log p with it, nats behind the best", [value - best for value in values])
    return replace(reading, evidence=[*reading.evidence, row])
