"""What is asked and what is answered: every option with its meaning, from which the API's description is made."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from glassformer.inspection.interventions.changes import AnyChange
from glassformer.inspection.tracing.trace_manifest import Manifest
from glassformer.settings import Settings


def real(text: str) -> str:
    """Text that a file could hold."""
    if "\0" in text:
        raise ValueError("A text holds the character 0, which is none that can be written: leave it out.")
    return text


Text = Annotated[str, AfterValidator(real)]


def counted(value: Any) -> Any:
    """A count as forms write it, too; `true` is none."""
    if isinstance(value, bool) or (isinstance(value, str) and not re.fullmatch("[0-9]{1,3}", value)):
        raise ValueError("is not a whole number")
    return value


Written = Annotated[
    int,
    BeforeValidator(counted),
    Field(ge=0, le=999),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 999}, {"type": "string", "pattern": "^[0-9]{1,3}$"}]}
    ),
]
Place = Annotated[int, Field(ge=0, le=2**31 - 1)]
Width = Annotated[int, Field(ge=1, le=1000)]
Amount = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class AskTranslation(Settings):
    """`POST /api/translate`."""

    text: Text | list[Text]
    """A text, or several: as many translations come back, in order."""
    beam: Width | None = None
    """Hypotheses kept while searching; 1 is greedy search. Unless given 4, or as many as the server allows."""
    n_best: Width = 1
    """Translations wanted of each text, best first."""
    length_penalty: Amount = 1.0
    """Translations compete by log-probability / length ** this; 0 favours short ones."""
    no_repeat: Annotated[int, Field(ge=0, le=1000)] = 0
    """No run of so many tokens may occur twice; 0 allows it."""
    tokens: bool = False
    """Whether tokens and their log-probabilities are wanted."""
    alignment: bool = False
    """Whether it is wanted which source word each word of the best translation looks at."""
    source: Text | None = None
    """The language of the text, where a model knows many."""
    target: Text | None = None
    """The language wanted, where a model knows many."""


class AskTrace(Settings):
    """`POST /api/explore`."""

    text: Text
    """What to translate and look at; in one piece."""
    target: Text | None = None
    """The translation to look at; the model's own unless given."""
    beam: Width | None = None
    """Hypotheses kept while searching. Unless given 4, or as many as the server allows."""
    hypothesis: Place = 0
    """Which of those that the search ended is followed, the best first."""
    prefix: list[Place] = Field(default_factory=list)
    """Ids of tokens that the translation is made to begin with: a way through a tree, up to some node."""
    source_language: Text | None = None
    """The language of the text, where a model knows many."""
    target_language: Text | None = None
    """The language of the translation, where a model knows many."""


class Replacement(Settings):
    """Another word in the place of one of the source."""

    old: Text
    """As it is written."""
    new: Text

    which: Place = 0
    """Of those that are so written, counted from 0."""


class ReplaceWord(Replacement):
    """The same in its place among other changes: `old` may be a word that one before it has put there."""

    kind: Literal["replace-word"] = "replace-word"


class BeginWith(Settings):
    """The translation begins with a text."""

    kind: Literal["begin-with"] = "begin-with"
    text: Text


class AskWhatIf(BaseModel):
    """`POST /api/explore/{id}/what-if`."""

    # Each change complains for itself, about its own options.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    changes: list[Annotated[AnyChange | ReplaceWord | BeginWith, Field(discriminator="kind")]] = Field(
        default_factory=list
    )
    """Heads removed, edges cut, matrices replaced, one after another: see `inspection.interventions.changes`."""
    replace: list[Replacement] = Field(default_factory=list)
    """Words of the source that are others; after all `changes`."""
    reference: Text | None = None
    """A translation to compare with: then chrF is wanted before and after."""


class AskWho(Settings):
    """`POST /api/who`."""

    text: Text
    """The sentence."""
    word: Text = "it"
    """The word that may be taken for one or another; "it#2" is the second of them."""
    candidates: Annotated[list[Text], Field(min_length=2, max_length=8)] | None = None
    """Nouns of the sentence; unless given, those behind an English determiner."""
    instead: Replacement | None = None
    """A word that is another in a second sentence; unless given, one is looked for with which the pronoun changes."""
    source_language: Text | None = None
    """The language of the text, where a model knows many."""
    target_language: Text | None = None
    """The language of the translation, where a model knows many."""


class AskLibre(BaseModel):
    """`POST /translate`, as LibreTranslate's clients ask it; what they say beside this is passed over."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    q: Text | list[Text]
    """A text, or several."""
    source: Text = "auto"
    """A code of `/languages`, or "auto"."""
    target: Text = ""
    """A code of `/languages`."""
    format: Text = "text"
    """Only "text"."""
    alternatives: Written = 0
    """Other translations wanted."""
    api_key: Text | None = None
    """Where the server asks for one."""


class AskDetect(BaseModel):
    """`POST /detect`, as LibreTranslate's clients ask it."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    q: Text | list[Text]
    """A text, or several."""
    api_key: Text | None = None
    """Where the server asks for one."""


class TranslationOut(BaseModel):
    """One translation of a text."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    text: str
    score: float | None
    """Log-probability / length ** length_penalty, in nats."""
    tokens: list[str] | None = None
    """As the model wrote them; ▁ stands for a space."""
    log_probabilities: list[float | None] | None = None
    """Of each token after those before it, in nats."""


class Linked(BaseModel):
    """A target word and the source word that it looks at most: numbers of words, from 0."""

    source: int
    target: int
    weight: float
    uncertain: bool


class TranslatedText(TranslationOut):
    """What became of a text."""

    alternatives: list[TranslationOut]
    """The other translations, best first."""
    parts: int
    """How many parts the text was split into because it was too long; 0 for a blank text."""
    source_words: list[str] | None = None
    target_words: list[str] | None = None
    alignment: list[Linked] | None = None
    """None for a text that was split."""


class Translations(BaseModel):
    """One for each text, in order."""

    translations: list[TranslatedText]


class Libre(BaseModel):
    """LibreTranslate's answer."""

    translatedText: str | list[str]  # noqa: N815 - their name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: dict[str, Any] | list[dict[str, Any]] | None = None  # noqa: N815


class Wrong(BaseModel):
    """Every answer that is not what was asked for."""

    error: str
    """One sentence: what was found, and the way out."""


class Difference(BaseModel):
    """What a change does."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """Of the trace under the changes."""
    manifest: Manifest
    changed_words: list[tuple[str, str]]
    """What stood there before and what stands there now."""
    kept: list[float | None]
    """The log-probabilities that the changed model gives to the translation before."""
    differences: list[float | None]
    """By how much each of its tokens became likelier, in nats."""
    chrf: tuple[float, float] | None = None
    """Of both translations against the reference, from 0 to 100: before and after."""


class HeadWorth(BaseModel):
    """What a head is worth to one translation."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    at: str
    head: int
    loss: float | None
    """Nats a token that the translation loses without it; below 0, it becomes likelier. None: it becomes impossible."""


class Ranked(BaseModel):
    """Every head, the dearest first."""

    heads: list[HeadWorth]


class EvidenceRow(BaseModel):
    """A row of the table of who a word is."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    kind: str
    name: str
    values: list[float]
    """One a candidate, the larger the more."""
    counted: bool
    points_to: int | None = None
    """The candidate with the largest number; None where another is too close."""
    note: str


class ReadingOf(BaseModel):
    """One sentence, and what the model takes the word for in it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    source: str
    translation: str
    word: str
    candidates: list[str]
    pronoun: str | None = None
    """What the word became; None where no word of the translation follows any candidate."""
    scores: dict[str, float]
    """The log-probability of the translation with each alternative in the pronoun's place, in nats."""
    own_pronouns: list[str | None]
    evidence: list[EvidenceRow]
    verdict: int | None = None
    """The candidate; None for "undecided"."""
    votes: tuple[int, int]
    """How many rows point to it, of those that count and point to anyone."""
    preference: float | None = None
    """By how many nats the pronoun is likelier than the best of its alternatives."""
    in_words: str


class WhoFound(BaseModel):
    """Who a word is, in a sentence and in a second one that differs in a word."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    swap: tuple[str, str] | None = None
    """The word that differs, and what stands there in the second sentence."""
    found: bool
    """Whether the second sentence was looked for, rather than asked for."""
    tries: int
    """Words that were tried in each candidate's place."""
    readings: list[ReadingOf]


class Health(BaseModel):
    status: Literal["ok", "stopping"]
    model: str
    version: str
