"""Result of pronoun resolution: candidates, evidence and verdict, for one model."""

from dataclasses import dataclass, replace
from functools import cached_property

from glassformer.inspection.coreference.noun_substitution import normalised
from glassformer.inspection.coreference.pronoun_evidence import PronounEvidence, decide


@dataclass(frozen=True)
class PronounReading:
    """One sentence, and how a model resolves the pronoun in it: candidates, evidence, verdict."""

    source: str
    translation: str
    word: str
    candidates: list[str]
    pronoun_index: int | None
    """Index of the pronoun among the translation's words; None if no word changes with any candidate."""
    scores: dict[str, float]
    """Log-probability of the translation with each alternative in place of the pronoun, in nats."""
    own_pronouns: list[str | None]
    """The target pronoun that agrees with each candidate, if known."""
    evidence: list[PronounEvidence]

    @property
    def pronoun(self) -> str | None:
        """The translation of the source pronoun; None if unknown."""
        return None if self.pronoun_index is None else normalised(self.translation.split()[self.pronoun_index])

    @cached_property
    def verdict(self) -> int | None:
        """Index of the candidate that the pronoun refers to; None for "undecided"."""
        return decide(self.evidence)

    @property
    def votes(self) -> tuple[int, int]:
        """Number of voting rows that point to the verdict, and of those that point to any candidate."""
        pointing = [row.points_to for row in self.evidence if row.votes and row.points_to is not None]
        return (0 if self.verdict is None else pointing.count(self.verdict)), len(pointing)

    @property
    def preference(self) -> float | None:
        """Log-probability of the pronoun minus that of its best alternative, in nats."""
        if self.pronoun is None or len(self.scores) < 2:
            return None
        return self.scores[self.pronoun] - max(value for word, value in self.scores.items() if word != self.pronoun)

    @property
    def in_words(self) -> str:
        """The result in one or two sentences."""
        agreeing, total = self.votes
        if self.verdict is None:
            summary = f"Undecided: no candidate for {self.word!r} is clearly ahead in this model."
        else:
            name = self.candidates[self.verdict]
            summary = f"This model resolves {self.word!r} to {name!r}: {agreeing} of {total} rows agree."
        if self.pronoun is None:
            return f"{summary} No word of the translation changes with any candidate, and the verdict depends on that."
        summary = f"{summary} It is translated as {self.pronoun!r}"
        if self.preference is None:
            return f"{summary}, whichever nouns are substituted."
        second = max((word for word in self.scores if word != self.pronoun), key=lambda word: self.scores[word])
        comparison = "more" if self.preference >= 0 else "less"
        return f"{summary}, {abs(self.preference):.1f} nats {comparison} likely than {second!r}."


@dataclass(frozen=True)
class PronounVerdict:
    """How a model resolves a pronoun in a sentence, and in a second sentence that differs in one word."""

    readings: list[PronounReading]
    swap: tuple[str, str] | None
    """The word that differs, and the word in its place in the second sentence."""
    swap_searched: bool
    """Whether the second sentence was searched for, rather than given."""


def with_pronouns(reading: PronounReading, own: dict[str, str]) -> PronounReading:
    """The reading with a row of evidence that compares the candidates' pronouns, if all of them are known."""
    pronouns = [own.get(name) for name in reading.candidates]
    values = [reading.scores[word] for word in pronouns if word in reading.scores and word is not None]
    reading = replace(reading, own_pronouns=pronouns)
    if len(values) < len(pronouns):
        return reading
    best = max(reading.scores.values())
    row = PronounEvidence("pronoun", "log p with its pronoun, minus best", [value - best for value in values])
    return replace(reading, evidence=[*reading.evidence, row])
