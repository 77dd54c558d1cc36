"""Schemas of request and response bodies; their docstrings are the descriptions in the OpenAPI document."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from glassformer.settings import Settings


def reject_nul(text: str) -> str:
    """Reject a text that contains the NUL character."""
    if "\0" in text:
        raise ValueError("The text contains the NUL character (U+0000). Remove it.")
    return text


Text = Annotated[str, AfterValidator(reject_nul)]


def check_alternatives(value: Any) -> Any:
    """Check that a value is a whole number, or its digits as a form sends them; `true` is not a number."""
    if isinstance(value, bool) or (isinstance(value, str) and not re.fullmatch("[0-9]{1,3}", value)):
        raise ValueError("alternatives should be a whole number from 0 to 999.")
    return value


FormCount = Annotated[
    int,
    BeforeValidator(check_alternatives),
    Field(ge=0, le=999),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 999}, {"type": "string", "pattern": "^[0-9]{1,3}$"}]}
    ),
]
Index = Annotated[int, Field(ge=0, le=2**31 - 1)]
Width = Annotated[int, Field(ge=1)]
"""Beam size or number of translations; its upper bound is the server's limit, checked with the request."""
Exponent = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class RequestBody(Settings):
    """Base class of request bodies: the strings below their fields are descriptions in the OpenAPI document."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class TranslateRequest(RequestBody):
    """Request body of `POST /api/translate`."""

    text: Text | list[Text]
    """One text or a list of texts. One translation per text is returned, in order."""
    beam: Width | None = None
    """Beam size; 1 is greedy search. Default: 4, or the server's limit if that is lower."""
    n_best: Width = 1
    """Number of translations per text, best first."""
    length_penalty: Exponent = 1.0
    """Hypotheses are ranked by log-probability / length ** length_penalty; 0 favours short ones."""
    no_repeat: Annotated[int, Field(ge=0, le=1000)] = 0
    """No n-gram of this many tokens may occur twice; 0 turns this off."""
    tokens: bool = False
    """Also return tokens and their log-probabilities."""
    alignment: bool = False
    """Also return which source word each word of the best translation is aligned to."""
    source: Text | None = None
    """Language of the text, for multilingual models."""
    target: Text | None = None
    """Language to translate into, for multilingual models."""


class TraceRequest(RequestBody):
    """Request body of `POST /api/explore`."""

    text: Text
    """Text to translate and trace, as one piece."""
    target: Text | None = None
    """Translation to trace. Default: the model's own."""
    beam: Width | None = None
    """Beam size. Default: 4, or the server's limit if that is lower."""
    hypothesis: Index = 0
    """Which finished hypothesis of the search to trace; 0 is the best."""
    prefix: list[Index] = Field(default_factory=list)
    """Token ids that the translation must begin with, such as the path to a node of a search tree."""
    source_language: Text | None = None
    """Language of the text, for multilingual models."""
    target_language: Text | None = None
    """Language of the translation, for multilingual models."""


class Replacement(RequestBody):
    """Replaces a word of the source."""

    old: Text
    """The word as it is written in the source."""
    new: Text
    """The word or words that replace it."""
    which: Index = 0
    """Which occurrence of `old`, counted from 0."""


class ReplaceWord(Replacement):
    """Replaces a word of the source, as one of several changes: `old` may come from an earlier one."""

    kind: Literal["replace-word"] = "replace-word"


class BeginWith(RequestBody):
    """Forces the translation to begin with a text."""

    kind: Literal["begin-with"] = "begin-with"
    text: Text


class PronounRequest(RequestBody):
    """Request body of `POST /api/pronoun`."""

    text: Text
    """The sentence that contains the pronoun."""
    word: Text = "it"
    """The ambiguous word, usually a pronoun; "it#2" is its second occurrence."""
    candidates: Annotated[list[Text], Field(min_length=2, max_length=8)] | None = None
    """Nouns of the sentence that the word may refer to. Default: those after an English determiner."""
    swap: Replacement | None = None
    """Replacement that makes a second sentence. Default: one that changes the pronoun is searched for."""
    source_language: Text | None = None
    """Language of the text, for multilingual models."""
    target_language: Text | None = None
    """Language of the translation, for multilingual models."""


class LibreTranslateRequest(BaseModel):
    """Request body of `POST /translate`, as LibreTranslate's clients send it; other fields are ignored."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    q: Text | list[Text]
    """One text or a list of texts."""
    source: Text = "auto"
    """Source language: a code from `/languages`, or "auto"."""
    target: Text = ""
    """Target language: a code from `/languages`."""
    format: Text = "text"
    """Format of the text; only "text" is supported."""
    alternatives: FormCount = 0
    """Number of alternative translations."""
    api_key: Text | None = None
    """API key, if the server requires one."""


class DetectRequest(BaseModel):
    """Request body of `POST /detect`, as LibreTranslate's clients send it."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    q: Text | list[Text]
    """One text or a list of texts."""
    api_key: Text | None = None
    """API key, if the server requires one."""


class TranslationOut(BaseModel):
    """One translation of a text."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    text: str
    score: float | None
    """Log-probability / length ** length_penalty, in nats."""
    tokens: list[str] | None = None
    """Tokens as the model wrote them; ▁ marks a space."""
    log_probabilities: list[float | None] | None = None
    """Log-probability of each token given those before it, in nats."""


class WordLink(BaseModel):
    """A word alignment link: a target word and the source word it is aligned to; indices counted from 0."""

    source: int
    target: int
    weight: float
    uncertain: bool


class TranslatedText(TranslationOut):
    """The translations of one text."""

    alternatives: list[TranslationOut]
    """The other translations, best first."""
    parts: int
    """Number of parts that the text was split into because of its length; 0 for a blank text."""
    source_words: list[str] | None = None
    target_words: list[str] | None = None
    alignment: list[WordLink] | None = None
    """Word alignment of the best translation; None for a text that was split."""


class Translations(BaseModel):
    """Response of `POST /api/translate`: one entry per text, in order."""

    translations: list[TranslatedText]


class LibreTranslateResponse(BaseModel):
    """Response of `POST /translate`, in LibreTranslate's format."""

    translatedText: str | list[str]  # noqa: N815 - their name
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: dict[str, Any] | list[dict[str, Any]] | None = None  # noqa: N815


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: str
    """Error message of one or two sentences: what was found, and what to do."""


class HeadImportance(BaseModel):
    """Importance of one attention head for one translation."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    at: str
    head: int
    loss: float | None
    """Log-probability per token that the translation loses without the head, in nats.

    Negative if the translation becomes more likely, None if it becomes impossible."""


class HeadRanking(BaseModel):
    """All attention heads, the most important first."""

    heads: list[HeadImportance]


class EvidenceRow(BaseModel):
    """One measure of which candidate a pronoun refers to."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    kind: str
    name: str
    values: list[float]
    """One value per candidate; larger means more evidence."""
    counted: bool
    points_to: int | None = None
    """Index of the candidate with the largest value; None if another is too close."""
    note: str


class PronounReadingOut(BaseModel):
    """One sentence, and which candidate the model takes the pronoun to mean in it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    source: str
    translation: str
    word: str
    candidates: list[str]
    pronoun: str | None = None
    """The pronoun's translation; None if no word of the translation changes with any candidate."""
    scores: dict[str, float]
    """Log-probability of the translation with each alternative in the pronoun's place, in nats."""
    own_pronouns: list[str | None]
    evidence: list[EvidenceRow]
    verdict: int | None = None
    """Index of the candidate that the pronoun refers to; None for "undecided"."""
    votes: tuple[int, int]
    """Number of counted rows of evidence that point to the verdict, and that point to any candidate."""
    preference: float | None = None
    """By how many nats the pronoun is more likely than its best alternative."""
    in_words: str


class PronounResponse(BaseModel):
    """The analysis of a pronoun in a sentence, and in a second one that differs in one word."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    swap: tuple[str, str] | None = None
    """The word that differs, and its replacement in the second sentence."""
    swap_searched: bool
    """Whether the second sentence was searched for, rather than given."""
    tries: int
    """Number of words that were tried in each candidate's place."""
    readings: list[PronounReadingOut]


class Health(BaseModel):
    status: Literal["ok", "stopping"]
    model: str
    version: str
