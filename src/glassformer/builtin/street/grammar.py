"""Grammar of the street corpus: English-German pairs in which the gender of a pronoun depends on its referent.

"The animal didn't cross the street because it was too tired": es, das Tier. "... because it was too wide": sie, die
Straße. Everything is a pure function of the chosen words; `street.sentences` chooses them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from glassformer.builtin.street.lexicon import Gender, Noun, Reason, Verb

NOMINATIVE: dict[Gender, str] = {"m": "der", "f": "die", "n": "das"}
ACCUSATIVE: dict[Gender, str] = {"m": "den", "f": "die", "n": "das"}
HE_SHE_IT: dict[Gender, str] = {"m": "er", "f": "sie", "n": "es"}
HIM_HER_IT: dict[Gender, str] = {"m": "ihn", "f": "sie", "n": "es"}
PRONOUNS = {*HE_SHE_IT.values(), *HIM_HER_IT.values()}
"""German forms of he, she, it and him, her, it; in this corpus these words are always pronouns, never articles."""


@dataclass(frozen=True)
class Tense:
    """Form of the main verb, and the matching form of "to be"."""

    english: Callable[[Verb], str]
    english_negation: str
    """Negated auxiliary, before the infinitive."""
    finite: Callable[[Verb], str]
    """The German finite verb, in second place."""
    last: Callable[[Verb], str]
    """The rest of the German verb, at the end: a particle, an infinitive, or nothing."""
    was: str
    war: str


def _auxiliary(english: str, english_negation: str, german: str, was: str, war: str) -> Tense:
    return Tense(
        lambda v: f"{english} {v.english}", english_negation, lambda _: german, lambda v: v.infinitive, was, war
    )


PAST = Tense(lambda v: v.past, "didn't", lambda v: v.praeteritum, lambda v: v.particle, "was", "war")
TENSES = (  # the last two only for voluntary actions
    PAST,
    replace(PAST, english_negation="did not"),
    Tense(lambda v: v.present, "doesn't", lambda v: v.praesens, lambda v: v.particle, "is", "ist"),
    _auxiliary("will", "will not", "wird", "is", "ist"),
    _auxiliary("could", "couldn't", "konnte", "was", "war"),
    _auxiliary("wanted to", "didn't want to", "wollte", "was", "war"),
)


@dataclass(frozen=True)
class Plot:
    """Content of a sentence: who does or does not do what, where, and why."""

    mover: Noun
    place: Noun
    verb: Verb
    reason: Reason
    tense: Tense
    degree: tuple[str, str]
    """Degree adverb in English and German: ("too", "zu"), or ("", "")."""

    @property
    def referent(self) -> Noun:
        """The noun that the reason describes: the referent of "it"."""
        return self.mover if self.reason.of == "mover" else self.place

    @property
    def happens(self) -> bool:
        """Whether the action takes place: a reason against a place prevents going there and causes leaving."""
        return self.verb.towards != self.reason.against


@dataclass(frozen=True)
class Sentence:
    """One sentence pair with its annotation."""

    source: str
    target: str
    plot: Plot
    pronoun: str | None
    """The German translation of English "it", in lower case; None if the sentence has no "it"."""


Template = Callable[[Plot], Sentence]


def because(plot: Plot) -> Sentence:
    """Template: "The animal didn't cross the street because it was too tired"."""
    english = f"{_subject(plot)} {_verb(plot)} {_object(plot)} because it {_predicate(plot)}"
    german = f"{_main_clause(plot)}, weil {_pronoun(plot)} {_predicate_verb_last(plot)}"
    return _sentence(plot, english, german, _pronoun(plot))


def because_first(plot: Plot) -> Sentence:
    """Template: "Because it was too tired, the animal didn't cross the street"."""
    english = f"because it {_predicate(plot)}, {_subject(plot)} {_verb(plot)} {_object(plot)}"
    german = f"weil {_pronoun(plot)} {_predicate_verb_last(plot)}, {_main_clause(plot, inverted=True)}"
    return _sentence(plot, english, german, _pronoun(plot))


def although(plot: Plot) -> Sentence:
    """Template: "The animal crossed the street although it was very tired"."""
    # "Although it was too tired" would imply that it did not happen after all.
    plot = _with_very(plot, instead_of="too")
    english = f"{_subject(plot)} {_verb(plot, contrary=True)} {_object(plot)} although it {_predicate(plot)}"
    german = f"{_main_clause(plot, contrary=True)}, obwohl {_pronoun(plot)} {_predicate_verb_last(plot)}"
    return _sentence(plot, english, german, _pronoun(plot))


def two_sentences(plot: Plot) -> Sentence:
    """Template: "The animal didn't cross the street. It was too tired"."""
    english = f"{_subject(plot)} {_verb(plot)} {_object(plot)}. It {_predicate(plot)}"
    german = f"{_main_clause(plot)}. {_capital(_pronoun(plot))} {_predicate_verb_first(plot)}"
    return _sentence(plot, english, german, _pronoun(plot))


def so_it_is_not_done(plot: Plot) -> Sentence:
    """Template: "The street was too wide, so the animal didn't cross it"."""
    plot = _with_very(plot, instead_of="so")
    him = HIM_HER_IT[plot.place.gender]
    english = f"{_object(plot)} {_predicate(plot)}, so {_subject(plot)} {_verb(plot)} it"
    german = (
        f"{_nominative(plot.place)} {_predicate_verb_first(plot)}, also {_main_clause(plot, inverted=True, place=him)}"
    )
    return _sentence(plot, english, german, him)


def which_was(plot: Plot) -> Sentence:
    """Template: "The street that the animal didn't cross was too wide". No pronoun: the noun itself is the subject."""
    english = f"{_object(plot)} that {_subject(plot)} {_verb(plot)} {_predicate(plot)}"
    clause = f"{ACCUSATIVE[plot.place.gender]} {_nominative(plot.mover)}{_nicht(plot)} {_relative_clause_verb(plot)}"
    german = f"{_nominative(plot.place)}, {clause}, {_predicate_verb_first(plot)}"
    return _sentence(plot, english, german, None)


def without_reason(plot: Plot) -> Sentence:
    """Template: "Yesterday the animal crossed the street"."""
    when = ("yesterday", "gestern") if plot.tense.was == "was" else ("today", "heute")
    english = f"{when[0]} {_subject(plot)} {_verb(plot)} {_object(plot)}"
    german = f"{when[1]} {_main_clause(plot, inverted=True)}"
    return _sentence(plot, english, german, None)


TEMPLATES: tuple[Template, ...] = (because, because, because_first, although, two_sentences, without_reason)
"""Sentence templates for any reason; the template of `PRONOUN_EXAMPLES` is twice as frequent."""
PLACE_TEMPLATES: tuple[Template, ...] = (*TEMPLATES, so_it_is_not_done, which_was)
"""Sentence templates for reasons that describe the place; in the last two, "it" or "that" can only be the place."""


def _sentence(plot: Plot, english: str, german: str, pronoun: str | None) -> Sentence:
    return Sentence(f"{_capital(english)}.", f"{_capital(german)}.", plot, pronoun)


def _subject(plot: Plot) -> str:
    return f"the {plot.mover.english}"


def _object(plot: Plot) -> str:
    return f"the {plot.place.english}"


def _verb(plot: Plot, contrary: bool = False) -> str:
    """The English verb phrase, such as "didn't cross"; with `contrary`, the opposite: "crossed"."""
    happens = plot.happens != contrary
    return plot.tense.english(plot.verb) if happens else f"{plot.tense.english_negation} {plot.verb.english}"


def _predicate(plot: Plot) -> str:
    """The English predicate, such as "was too tired"."""
    return " ".join(filter(None, (plot.tense.was, plot.degree[0], plot.reason.english)))


def _german_adjective(plot: Plot) -> str:
    """The German adjective with its degree, such as "zu müde"."""
    return " ".join(filter(None, (plot.degree[1], plot.reason.german)))


def _predicate_verb_last(plot: Plot) -> str:
    """The German predicate with the verb last, such as "zu müde war"."""
    return f"{_german_adjective(plot)} {plot.tense.war}"


def _predicate_verb_first(plot: Plot) -> str:
    """The German predicate with the verb first, such as "war zu müde"."""
    return f"{plot.tense.war} {_german_adjective(plot)}"


def _pronoun(plot: Plot) -> str:
    return HE_SHE_IT[plot.referent.gender]


def _nominative(noun: Noun) -> str:
    return f"{NOMINATIVE[noun.gender]} {noun.german}"


def _nicht(plot: Plot, contrary: bool = False) -> str:
    return "" if plot.happens != contrary else " nicht"


def _main_clause(plot: Plot, inverted: bool = False, contrary: bool = False, place: str | None = None) -> str:
    """A German main clause: finite verb in second place, "nicht" after the object, the rest of the verb at the end."""
    subject, finite = _nominative(plot.mover), plot.tense.finite(plot.verb)
    object_ = place or f"{ACCUSATIVE[plot.place.gender]} {plot.place.german}"
    begin = f"{finite} {subject}" if inverted else f"{subject} {finite}"
    last = plot.tense.last(plot.verb)
    return f"{begin} {object_}{_nicht(plot, contrary)}" + (f" {last}" if last else "")


def _relative_clause_verb(plot: Plot) -> str:
    """The verb at the end of a relative clause: ablehnte, überqueren wollte."""
    last, finite = plot.tense.last(plot.verb), plot.tense.finite(plot.verb)
    return f"{last}{finite}" if last == plot.verb.particle else f"{last} {finite}"


def _with_very(plot: Plot, instead_of: str) -> Plot:
    return replace(plot, degree=("very", "sehr")) if plot.degree[0] == instead_of else plot


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
