"""Sentences of the street in English and German, in which a pronoun's gender depends on what it refers to.

"The animal didn't cross the street because it was too tired": es, das Tier. "... because it was too wide": sie, die
Straße. Everything is a pure function of the words chosen; `corpus` chooses them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from glassformer.builtin.street.lexicon import Gender, Noun, Reason, Verb

NOMINATIVE: dict[Gender, str] = {"m": "der", "f": "die", "n": "das"}
ACCUSATIVE: dict[Gender, str] = {"m": "den", "f": "die", "n": "das"}
HE_SHE_IT: dict[Gender, str] = {"m": "er", "f": "sie", "n": "es"}
HIM_HER_IT: dict[Gender, str] = {"m": "ihn", "f": "sie", "n": "es"}
PRONOUNS = {*HE_SHE_IT.values(), *HIM_HER_IT.values()}
"""In these sentences the words are pronouns wherever they stand; no article is among them."""


@dataclass(frozen=True)
class Tense:
    """How the main verb is put, and the "to be" that goes with it."""

    english: Callable[[Verb], str]
    not_english: str
    """In front of the plain verb."""
    finite: Callable[[Verb], str]
    """The German verb in second place."""
    last: Callable[[Verb], str]
    """What of it stands at the end: a particle, an infinitive, or nothing."""
    was: str
    war: str


def _helped(english: str, not_english: str, german: str, was: str, war: str) -> Tense:
    return Tense(lambda v: f"{english} {v.english}", not_english, lambda _: german, lambda v: v.infinitive, was, war)


PAST = Tense(lambda v: v.past, "didn't", lambda v: v.praeteritum, lambda v: v.particle, "was", "war")
TENSES = (  # the last two only where the verb is a choice
    PAST,
    replace(PAST, not_english="did not"),
    Tense(lambda v: v.present, "doesn't", lambda v: v.praesens, lambda v: v.particle, "is", "ist"),
    _helped("will", "will not", "wird", "is", "ist"),
    _helped("could", "couldn't", "konnte", "was", "war"),
    _helped("wanted to", "didn't want to", "wollte", "was", "war"),
)


@dataclass(frozen=True)
class Plot:
    """What a sentence is about: who does or does not do what, where, and why."""

    mover: Noun
    place: Noun
    verb: Verb
    reason: Reason
    tense: Tense
    degree: tuple[str, str]
    """("too", "zu"), or ("", "")."""

    @property
    def referent(self) -> Noun:
        """What the reason is a reason of: what "it" is."""
        return self.mover if self.reason.of == "mover" else self.place

    @property
    def happens(self) -> bool:
        """A reason against a place stops those who would go there, and moves those who would leave."""
        return self.verb.towards != self.reason.against


@dataclass(frozen=True)
class Sentence:
    """One pair, and what there is to know about it."""

    source: str
    target: str
    plot: Plot
    pronoun: str | None
    """The German pronoun that stands for English "it", in lower case; None where there is none."""


Shape = Callable[[Plot], Sentence]


def because(plot: Plot) -> Sentence:
    """The animal didn't cross the street because it was too tired."""
    english = f"{_subject(plot)} {_does(plot)} {_object(plot)} because it {_is_so(plot)}"
    german = f"{_main(plot)}, weil {_pronoun(plot)} {_so_ist(plot)}"
    return _sentence(plot, english, german, _pronoun(plot))


def because_first(plot: Plot) -> Sentence:
    """Because it was too tired, the animal didn't cross the street."""
    english = f"because it {_is_so(plot)}, {_subject(plot)} {_does(plot)} {_object(plot)}"
    german = f"weil {_pronoun(plot)} {_so_ist(plot)}, {_main(plot, inverted=True)}"
    return _sentence(plot, english, german, _pronoun(plot))


def although(plot: Plot) -> Sentence:
    """The animal crossed the street although it was very tired."""
    # "Although it was too tired" would say that it did not happen after all.
    plot = _very(plot, instead_of="too")
    english = f"{_subject(plot)} {_does(plot, contrary=True)} {_object(plot)} although it {_is_so(plot)}"
    german = f"{_main(plot, contrary=True)}, obwohl {_pronoun(plot)} {_so_ist(plot)}"
    return _sentence(plot, english, german, _pronoun(plot))


def two_sentences(plot: Plot) -> Sentence:
    """The animal didn't cross the street. It was too tired."""
    english = f"{_subject(plot)} {_does(plot)} {_object(plot)}. It {_is_so(plot)}"
    german = f"{_main(plot)}. {_capital(_pronoun(plot))} {_ist_so(plot)}"
    return _sentence(plot, english, german, _pronoun(plot))


def so_it_is_not_done(plot: Plot) -> Sentence:
    """The street was too wide, so the animal didn't cross it."""
    plot = _very(plot, instead_of="so")
    him = HIM_HER_IT[plot.place.gender]
    english = f"{_object(plot)} {_is_so(plot)}, so {_subject(plot)} {_does(plot)} it"
    german = f"{_noun(plot.place)} {_ist_so(plot)}, also {_main(plot, inverted=True, place=him)}"
    return _sentence(plot, english, german, him)


def which_was(plot: Plot) -> Sentence:
    """The street that the animal didn't cross was too wide. (No pronoun: the reason has a name.)"""
    english = f"{_object(plot)} that {_subject(plot)} {_does(plot)} {_is_so(plot)}"
    clause = f"{ACCUSATIVE[plot.place.gender]} {_noun(plot.mover)}{_nicht(plot)} {_verb_last(plot)}"
    german = f"{_noun(plot.place)}, {clause}, {_ist_so(plot)}"
    return _sentence(plot, english, german, None)


def plainly(plot: Plot) -> Sentence:
    """Yesterday the animal crossed the street."""
    when = ("yesterday", "gestern") if plot.tense.was == "was" else ("today", "heute")
    english = f"{when[0]} {_subject(plot)} {_does(plot)} {_object(plot)}"
    german = f"{when[1]} {_main(plot, inverted=True)}"
    return _sentence(plot, english, german, None)


SHAPES: tuple[Shape, ...] = (because, because, because_first, although, two_sentences, plainly)
"""For any reason; the seed's own shape twice as often."""
SHAPES_ABOUT_PLACES: tuple[Shape, ...] = (*SHAPES, so_it_is_not_done, which_was)
"""Where the place is named with its reason, and "it" or "that" can only be the place."""


def _sentence(plot: Plot, english: str, german: str, pronoun: str | None) -> Sentence:
    return Sentence(f"{_capital(english)}.", f"{_capital(german)}.", plot, pronoun)


def _subject(plot: Plot) -> str:
    return f"the {plot.mover.english}"


def _object(plot: Plot) -> str:
    return f"the {plot.place.english}"


def _does(plot: Plot, contrary: bool = False) -> str:
    happens = plot.happens != contrary
    return plot.tense.english(plot.verb) if happens else f"{plot.tense.not_english} {plot.verb.english}"


def _is_so(plot: Plot) -> str:
    return " ".join(filter(None, (plot.tense.was, plot.degree[0], plot.reason.english)))


def _so(plot: Plot) -> str:
    return " ".join(filter(None, (plot.degree[1], plot.reason.german)))


def _so_ist(plot: Plot) -> str:
    return f"{_so(plot)} {plot.tense.war}"


def _ist_so(plot: Plot) -> str:
    return f"{plot.tense.war} {_so(plot)}"


def _pronoun(plot: Plot) -> str:
    return HE_SHE_IT[plot.referent.gender]


def _noun(noun: Noun) -> str:
    return f"{NOMINATIVE[noun.gender]} {noun.german}"


def _nicht(plot: Plot, contrary: bool = False) -> str:
    return "" if plot.happens != contrary else " nicht"


def _main(plot: Plot, inverted: bool = False, contrary: bool = False, place: str | None = None) -> str:
    """A main clause: the finite verb in second place, "nicht" behind the object, the rest of the verb at the end."""
    who, finite = _noun(plot.mover), plot.tense.finite(plot.verb)
    where = place or f"{ACCUSATIVE[plot.place.gender]} {plot.place.german}"
    begin = f"{finite} {who}" if inverted else f"{who} {finite}"
    last = plot.tense.last(plot.verb)
    return f"{begin} {where}{_nicht(plot, contrary)}" + (f" {last}" if last else "")


def _verb_last(plot: Plot) -> str:
    """The verb at the end of a relative clause: ablehnte, überqueren wollte."""
    last, finite = plot.tense.last(plot.verb), plot.tense.finite(plot.verb)
    return f"{last}{finite}" if last == plot.verb.particle else f"{last} {finite}"


def _very(plot: Plot, instead_of: str) -> Plot:
    return replace(plot, degree=("very", "sehr")) if plot.degree[0] == instead_of else plot


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
