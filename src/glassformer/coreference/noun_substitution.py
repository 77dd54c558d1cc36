"""Put another noun in a candidate's place: does the pronoun of the translation follow?

A causal test that needs no list of genders: if "it" is the animal, then with a cat in its place the German pronoun is a
cat's. Works on texts and their translations; knows no model.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

FEW = 3
"""A pronoun is one of so many words, mostly."""
MOSTLY = 0.8
OFTEN = 3
"""A word that changed less often than this may have changed by chance."""
SIGNS = ".,;:!?\"'()[]«»„“”…"


def normal(word: str) -> str:
    """A word as it is compared: without signs around it, in small letters."""
    return word.strip(SIGNS).casefold()


@dataclass(frozen=True)
class Variant:
    """A sentence with another noun in one place, translated."""

    noun: str
    words: tuple[str, ...]
    changed: tuple[int, ...]
    """The places of the words that are not as they were."""


@dataclass(frozen=True)
class Slot:
    """A candidate's place, with what others there do to the translation."""

    before: tuple[str, ...]
    """The words of the translation as it was."""
    variants: tuple[Variant, ...]
    """Those with as many words as before."""

    @cached_property
    def column(self) -> int | None:
        """Where the noun's own translation stands: what changes most often, then to most different words."""
        changes = Counter(place for variant in self.variants for place in variant.changed)
        if not changes:
            return None
        kinds = {place: len({variant.words[place] for variant in self.variants}) for place in changes}
        return max(changes, key=lambda place: (changes[place], kinds[place]))

    @cached_property
    def article(self) -> int | None:
        """The word before the noun, which may agree with it."""
        return None if self.column is None else self.column - 1

    def elsewhere(self, variant: Variant) -> tuple[int, ...]:
        """What changed besides the noun and its article."""
        return tuple(place for place in variant.changed if place not in (self.column, self.article))

    @cached_property
    def clean(self) -> tuple[Variant, ...]:
        """Variants in which the noun changed, and beyond its article one word at most."""
        return tuple(
            variant for variant in self.variants if self.column in variant.changed and len(self.elsewhere(variant)) <= 1
        )


@dataclass(frozen=True)
class SubstitutionResult:
    """How often the pronoun followed a candidate."""

    followed: int
    shown: int
    """Variants in which it would have shown: the noun's article changed, or the pronoun."""
    tried: int

    @property
    def share(self) -> float:
        return self.followed / self.shown if self.shown else 0.0


def slot(before: str, nouns: Sequence[str], translations: Sequence[str]) -> Slot:
    """From a translation, and those of the same sentence with other nouns in one place."""
    old = tuple(map(normal, before.split()))
    variants = []
    for noun, text in zip(nouns, translations, strict=True):
        new = tuple(map(normal, text.split()))
        if len(new) == len(old):
            changed = tuple(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
            variants.append(Variant(noun, new, changed))
    return Slot(old, tuple(variants))


def pronoun_place(slots: Sequence[Slot], among: Sequence[int] | None = None) -> int | None:
    """Where the word stands that agrees with a noun from afar: it changes with it, always to one of a few words.

    `among`: only these places. None where no word does so.
    """
    taken = {place for own in slots for place in (own.column, own.article)}
    seen: dict[int, Counter[str]] = {}
    for own in slots:
        for variant in own.clean:
            for place in own.elsewhere(variant):
                if place not in taken and (among is None or place in among):
                    seen.setdefault(place, Counter())[variant.words[place]] += 1
    strength = {}
    for place, kinds in seen.items():
        few = sum(count for _, count in kinds.most_common(FEW))
        if few >= OFTEN and few >= MOSTLY * kinds.total():
            strength[place] = few
    return max(strength, key=lambda place: strength[place]) if strength else None


def alternatives(slots: Sequence[Slot], place: int) -> list[str]:
    """What stands there in the variants, the usual first; the word as it was is one of them."""
    kinds = Counter(variant.words[place] for own in slots for variant in own.clean)
    usual = [word for word, count in kinds.most_common() if count >= 2]
    was = slots[0].before[place]
    return usual if was in usual else [was, *usual]


def following(own: Slot, place: int) -> SubstitutionResult:
    """How often the pronoun changed with this noun, of the times that anything agreed anew."""
    variants = [variant for variant in own.clean if own.elsewhere(variant) in ((), (place,))]
    followed = [variant for variant in variants if place in variant.changed]
    shown = [variant for variant in variants if place in variant.changed or own.article in variant.changed]
    return SubstitutionResult(len(followed), len(shown), len(variants))
