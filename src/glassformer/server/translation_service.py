"""Translation service: requests of many clients translated by one model. Of HTTP it knows only the errors."""

import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.data import IdsOnly
from glassformer.data.word_spans import WordPair
from glassformer.decoding import Beam, SearchSettings
from glassformer.decoding.alignment_choice import AlignmentHeads, read_alignment_heads
from glassformer.decoding.attention_links import Link
from glassformer.engine import EngineOptions, describe_engine
from glassformer.errors import InputError
from glassformer.loading import load
from glassformer.server.http_errors import HTTPError
from glassformer.server.language_pairs import LanguagePairs
from glassformer.server.limits import Limits
from glassformer.server.metrics import Metrics
from glassformer.server.request_batching import Batcher, Ticket
from glassformer.server.schemas import TranslatedText, TranslateRequest, TranslationOut, Translations, WordLink
from glassformer.translation import Translation, TranslationCandidate
from glassformer.translator import MAX_SOURCE_TOKENS, Translator

DEFAULT_SEARCH = Beam()


@dataclass(frozen=True)
class ServedModel:
    """A model, and the name under which it is served."""

    name: str
    translator: Translator
    alignment_heads: AlignmentHeads
    """The attention heads that alignments are taken from."""


def open_served_model(
    path: str | os.PathLike[str],
    *,
    engine: EngineOptions | None = None,
    max_tokens: int = MAX_SOURCE_TOKENS,
    source_language: str | None = None,
    target_language: str | None = None,
) -> ServedModel:
    """Load a model to serve it."""
    translator = load(
        path, engine=engine, max_tokens=max_tokens, source_language=source_language, target_language=target_language
    )
    return served_model(os.path.basename(os.path.normpath(os.fspath(path))), translator)


def served_model(name: str, translator: Translator) -> ServedModel:
    """A loaded model, to be served under this name."""
    if isinstance(translator.tokenizer, IdsOnly):
        raise InputError(f"{name} has no tokenizer: it takes token ids, not text, and cannot be served.")
    return ServedModel(name, translator, read_alignment_heads(translator.directory, translator.config))


class TranslationService:
    """Translates the requests of all clients at once, with one model."""

    def __init__(
        self, served: ServedModel, limits: Limits, metrics: Metrics, named: tuple[str, str] | None = None
    ) -> None:
        self.served, self.limits, self.metrics = served, limits, metrics
        translator = served.translator
        self.engine = describe_engine(translator.engine)
        self.languages = LanguagePairs(translator.tokenizer, named, limits.languages, served.name)
        self.batcher = Batcher(translator.engine, limits.waiting, metrics)
        self._alignment_lock = threading.Lock()

    def translator(
        self, source: str | None, target: str | None, search: SearchSettings | None = None, ticket: Ticket | None = None
    ) -> Translator:
        """A translator for one request: for these languages, this search, and the request's ticket."""
        tokenizer = self.languages.tokenizer(source, target)
        return self.served.translator.replace(search=search, tokenizer=tokenizer, engine=ticket)

    def check_size(self, texts: Sequence[str]) -> None:
        """Refuse more texts or characters than one request may have."""
        if len(texts) > self.limits.texts:
            raise HTTPError(413, f"The request has {len(texts):,} texts; at most {self.limits.texts:,} are allowed.")
        if (size := sum(map(len, texts))) > self.limits.characters:
            raise HTTPError(
                413, f"The request has {size:,} characters; at most {self.limits.characters:,} are allowed."
            )

    def beam(self, requested: int | None, limit: int | None = None) -> int:
        """Beam size of a request: as requested, or else the default, or the limit if that is lower."""
        return requested or min(DEFAULT_SEARCH.size, limit or self.limits.beam)

    def check_width(self, beam: int | None, n_best: int) -> None:
        if (beam or 1) > self.limits.beam:
            raise HTTPError(422, f"beam = {beam} is larger than this server's limit of {self.limits.beam}.")
        if n_best > self.limits.n_best:
            raise HTTPError(422, f"n_best = {n_best} is larger than this server's limit of {self.limits.n_best}.")

    def translate(self, body: TranslateRequest, ticket: Ticket) -> Translations:
        """Translate the texts of `POST /api/translate`: the results of `Translator.translations`, in order."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        search = Beam(
            size=self.beam(body.beam), n_best=body.n_best, length_penalty=body.length_penalty, no_repeat=body.no_repeat
        )
        translator = self.translator(body.source, body.target, search, ticket)
        heads = self.served.alignment_heads if body.alignment else None
        translations = translator.translations(texts, choice=heads)
        alignments = self._alignments(translator, translations) if body.alignment else [None] * len(texts)
        return Translations(
            translations=[
                _translated_text(translation, alignment, body.tokens)
                for translation, alignment in zip(translations, alignments, strict=True)
            ]
        )

    def translate_lines(
        self, texts: Sequence[str], n_best: int, source: str | None, target: str | None, ticket: Ticket
    ) -> list[list[str]]:
        """Translate texts line by line, so that line breaks are kept; returns the translations of each, best first."""
        search = Beam(size=max(self.beam(None), n_best), n_best=n_best)
        translator = self.translator(source, target, search, ticket)
        lines_by_text = [text.split("\n") for text in texts]
        translations = iter(translator.translations([line for lines in lines_by_text for line in lines]))
        return [_joined_lines([next(translations) for _ in lines]) for lines in lines_by_text]

    def _alignments(
        self, translator: Translator, translations: Sequence[Translation]
    ) -> list[tuple[WordPair, list[Link]] | None]:
        """Word alignments of all texts that were not split."""
        with self._alignment_lock:  # where the search recorded no attention, one request at a time computes it
            return translator.word_alignments(translations, self.served.alignment_heads)


def _translated_text(
    translation: Translation, alignment: "tuple[WordPair, list[Link]] | None", tokens: bool
) -> TranslatedText:
    if not translation.candidates:
        return TranslatedText(text="", score=None, alternatives=[], parts=translation.parts)
    best, *others = (_translation_out(candidate, tokens) for candidate in translation.candidates)
    result = TranslatedText(**best.model_dump(), alternatives=others, parts=translation.parts)
    if alignment is not None:
        pair, links = alignment
        result.source_words, result.target_words = pair.texts
        result.alignment = [WordLink.model_validate(link, from_attributes=True) for link in links]
    return result


def _translation_out(candidate: TranslationCandidate, tokens: bool) -> TranslationOut:
    result = TranslationOut(text=candidate.text, score=finite_or_none(candidate.score))
    if tokens:
        result.tokens = candidate.tokens
        result.log_probabilities = [finite_or_none(log_p) for log_p in candidate.log_probabilities]
    return result


def _joined_lines(lines: Sequence[Translation]) -> list[str]:
    """Join the best translations of all lines, the second best, ...; a line without that many repeats its best."""
    count = max(len(line.candidates) for line in lines)
    candidates_by_line = [[candidate.text for candidate in line.candidates] or [line.source] for line in lines]
    texts = [
        "\n".join(candidates[i] if i < len(candidates) else candidates[0] for candidates in candidates_by_line)
        for i in range(max(1, count))
    ]
    return list(dict.fromkeys(texts))


def finite_or_none(number: float) -> float | None:
    """The number, or None for infinity and NaN, which JSON does not have."""
    return number if math.isfinite(number) else None
