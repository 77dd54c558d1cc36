"""Noun substitution: replace a candidate antecedent by other nouns and see whether the translation's pronoun changes.

A causal test that needs no list of genders: if "it" is the animal, then with a cat in its place the German pronoun
agrees with the cat. Works on texts and their translations, independent of the model.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

PRONOUN_FORMS = 3
"""Number of most frequent forms that must cover `MIN_FORMS_SHARE` of a pronoun's changes."""
MIN_FORMS_SHARE = 0.8
MIN_CHANGES = 3
"""Minimum number of changes of a pronoun: a word that changed less often may have changed by chance."""
PUNCTUATION = ".,;:!?\"'()[]«»„“”…"


def normalised(word: str) -> str:
    """A word in the form used for comparisons: case-folded, without punctuation around it."""
    return word.strip(PUNCTUATION).casefold()


@dataclass(frozen=True)
class Variant:
    """The translation of a sentence with another noun substituted."""

    noun: str
    words: tuple[str, ...]
    changed: tuple[int, ...]
    """Indices of the words that differ from the original translation."""


@dataclass(frozen=True)
class Slot:
    """The translations of a sentence with substitutes for one candidate."""

    before: tuple[str, ...]
    """The words of the original translation."""
    variants: tuple[Variant, ...]
    """Variants with the same number of words as the original."""

    @cached_property
    def column(self) -> int | None:
        """Index of the noun's own translation: the word that changes most often, of ties the one with most forms."""
        changes = Counter(index for variant in self.variants for index in variant.changed)
        if not changes:
            return None
        forms = {index: len({variant.words[index] for variant in self.variants}) for index in changes}
        return max(changes, key=lambda index: (changes[index], forms[index]))

    @cached_property
    def article(self) -> int | None:
        """Index of the word before the noun, which may agree with it."""
        return None if self.column is None else self.column - 1

    def elsewhere(self, variant: Variant) -> tuple[int, ...]:
        """Indices of a variant's changed words other than the noun and its article."""
        return tuple(index for index in variant.changed if index not in (self.column, self.article))

    @cached_property
    def clean(self) -> tuple[Variant, ...]:
        """Variants in which the noun changed and, besides its article, at most one other word."""
        return tuple(
            variant for variant in self.variants if self.column in variant.changed and len(self.elsewhere(variant)) <= 1
        )


@dataclass(frozen=True)
class SubstitutionResult:
    """How often the pronoun changed when one candidate was substituted."""

    followed: int
    """Number of variants in which the pronoun changed."""
    shown: int
    """Number of variants in which agreement is visible: the noun's article changed, or the pronoun."""
    tried: int
    """Number of all usable variants."""

    @property
    def share(self) -> float:
        return self.followed / self.shown if self.shown else 0.0


def slot(before: str, nouns: Sequence[str], translations: Sequence[str]) -> Slot:
    """Compare a translation with those of the same sentence with other nouns substituted."""
    old = tuple(map(normalised, before.split()))
    variants = []
    for noun, text in zip(nouns, translations, strict=True):
        new = tuple(map(normalised, text.split()))
        if len(new) == len(old):
            changed = tuple(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
            variants.append(Variant(noun, new, changed))
    return Slot(old, tuple(variants))


def find_pronoun(slots: Sequence[Slot], among: Sequence[int] | None = None) -> int | None:
    """Index of the word that agrees with a noun at a distance: it changes with the noun, and has only a few forms.

    `among`: consider only these indices. None if there is no such word.
    """
    taken = {index for slot in slots for index in (slot.column, slot.article)}
    changes: dict[int, Counter[str]] = {}
    for slot in slots:
        for variant in slot.clean:
            for index in slot.elsewhere(variant):
                if index not in taken and (among is None or index in among):
                    changes.setdefault(index, Counter())[variant.words[index]] += 1
    strength = {}
    for index, forms in changes.items():
        frequent = sum(count for _, count in forms.most_common(PRONOUN_FORMS))
        if frequent >= MIN_CHANGES and frequent >= MIN_FORMS_SHARE * forms.total():
            strength[index] = frequent
    return max(strength, key=lambda index: strength[index]) if strength else None


def alternatives(slots: Sequence[Slot], index: int) -> list[str]:
    """The forms of one word of the translation in the variants, most frequent first; includes the original form."""
    forms = Counter(variant.words[index] for slot in slots for variant in slot.clean)
    frequent = [word for word, count in forms.most_common() if count >= 2]
    original = slots[0].before[index]
    return frequent if original in frequent else [original, *frequent]


def count_following(slot: Slot, pronoun_index: int) -> SubstitutionResult:
    """How often the pronoun changed with this noun, out of the variants in which the agreement is visible."""
    variants = [variant for variant in slot.clean if slot.elsewhere(variant) in ((), (pronoun_index,))]
    followed = [variant for variant in variants if pronoun_index in variant.changed]
    shown = [variant for variant in variants if pronoun_index in variant.changed or slot.article in variant.changed]
    return SubstitutionResult(len(followed), len(shown), len(variants))
