"""A model that answers many clients: from what is asked to what is answered. Knows nothing of HTTP but refusals."""

import copy
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.data import IdsOnly
from glassformer.decoding import Beam, SearchSettings
from glassformer.engine import EngineOptions
from glassformer.errors import InputError
from glassformer.inspection.alignment.word_alignment import (
    AlignmentHeads,
    Link,
    WordPair,
    align,
    default_alignment_heads,
    read_alignment_heads,
    word_pair,
)
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace_manifest import finite as finite
from glassformer.loading import load
from glassformer.model_location import find_model, is_ours
from glassformer.server.http_errors import HTTPError
from glassformer.server.language_pairs import LanguagePairs
from glassformer.server.limits import Limits
from glassformer.server.metrics import Metrics
from glassformer.server.request_batching import Batcher, Ticket
from glassformer.server.schemas import AskTranslation, Linked, TranslatedText, TranslationOut, Translations
from glassformer.translator import LONGEST, Translation, TranslationCandidate, Translator

USUAL = Beam()


@dataclass(frozen=True)
class ServedModel:
    """What is served, under which name."""

    name: str
    translator: Translator
    choice: AlignmentHeads
    """Whose looks are taken as alignment."""


def open_served_model(
    path: str | os.PathLike[str],
    *,
    engine: EngineOptions | None = None,
    max_tokens: int = LONGEST,
    source_language: str | None = None,
    target_language: str | None = None,
) -> ServedModel:
    """A model, loaded once."""
    translator = load(
        path, engine=engine, max_tokens=max_tokens, source_language=source_language, target_language=target_language
    )
    if isinstance(translator.tokenizer, IdsOnly):
        raise InputError(f"{path} came without a tokenizer: it takes ids, not text, and cannot be served.")
    config = translator.model.config
    choice = read_alignment_heads(find_model(path), config) if is_ours(path) else default_alignment_heads(config)
    return ServedModel(os.path.basename(os.path.normpath(os.fspath(path))), translator, choice)


class TranslationService:
    """Translations for everybody at once."""

    def __init__(
        self, served: ServedModel, limits: Limits, metrics: Metrics, named: tuple[str, str] | None = None
    ) -> None:
        self.served, self.limits, self.metrics = served, limits, metrics
        translator = served.translator
        self.languages = LanguagePairs(translator.tokenizer, named, limits.languages)
        self.batcher = Batcher(translator.engine, translator.model.config.eos_id, limits.waiting, metrics)
        self._aligning = threading.Lock()
        self._listened = weight_sharing_copy(translator.model)  # taps hear one pass at a time

    def translator(
        self, source: str | None, target: str | None, search: SearchSettings | None = None, ticket: Ticket | None = None
    ) -> Translator:
        """The model's translator for these languages, this search and this client."""
        mine = copy.copy(self.served.translator)
        for made in ("_start", "_names"):  # of the other tokenizer
            vars(mine).pop(made, None)
        mine.tokenizer = self.languages.tokenizer(source, target)
        mine.search = search or mine.search
        mine.engine = ticket or mine.engine
        return mine

    def check_size(self, texts: Sequence[str]) -> None:
        """Refuse more than one request may ask for."""
        if len(texts) > self.limits.texts:
            raise HTTPError(413, f"These are {len(texts):,} texts, and a request may have {self.limits.texts:,}.")
        if (size := sum(map(len, texts))) > self.limits.characters:
            raise HTTPError(413, f"These are {size:,} characters, and a request may have {self.limits.characters:,}.")

    def beam(self, asked: int | None, most: int | None = None) -> int:
        """The beam's size: what is asked for, or ours if that is allowed."""
        return asked or min(USUAL.size, most or self.limits.beam)

    def check_width(self, beam: int | None, n_best: int) -> None:
        if (beam or 1) > self.limits.beam:
            raise HTTPError(422, f"beam = {beam} is more than the {self.limits.beam} that this server allows.")
        if n_best > self.limits.n_best:
            raise HTTPError(422, f"n_best = {n_best} is more than the {self.limits.n_best} that this server allows.")

    def translate(self, asked: AskTranslation, ticket: Ticket) -> Translations:
        """`POST /api/translate`: what `Translator.answer` answers, in its order."""
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        search = Beam(
            size=self.beam(asked.beam),
            n_best=asked.n_best,
            length_penalty=asked.length_penalty,
            no_repeat=asked.no_repeat,
        )
        translator = self.translator(asked.source, asked.target, search, ticket)
        translations = translator.answer(texts)
        linked = self._linked(translator, translations) if asked.alignment else [None] * len(texts)
        return Translations(
            translations=[_translated(one, link, asked.tokens) for one, link in zip(translations, linked, strict=True)]
        )

    def several(
        self, texts: Sequence[str], n_best: int, source: str | None, target: str | None, ticket: Ticket
    ) -> list[list[str]]:
        """Each text's translations, best first, line by line: what stands on a line of its own stays there."""
        search = Beam(size=max(self.beam(None), n_best), n_best=n_best)
        translator = self.translator(source, target, search, ticket)
        lines = [text.split("\n") for text in texts]
        found = iter(translator.answer([line for own in lines for line in own]))
        return [_put_together([next(found) for _ in own]) for own in lines]

    def _linked(
        self, translator: Translator, translations: Sequence[Translation]
    ) -> list[tuple[WordPair, list[Link]] | None]:
        """Of every text that was translated in one piece, all together: one pass through the model."""
        tokenizer = translator.tokenizer
        whole = [number for number, one in enumerate(translations) if one.answers and one.parts == 1]
        pairs = [
            word_pair(tokenizer, tokenizer.encode(one.source, "source"), one.answers[0].ids)
            for one in (translations[number] for number in whole)
        ]
        with self._aligning:
            links = align(self._listened, pairs, self.served.choice)
        found: list[tuple[WordPair, list[Link]] | None] = [None] * len(translations)
        for number, pair, own in zip(whole, pairs, links, strict=True):
            found[number] = (pair, own)
        return found


def _translated(translation: Translation, linked: tuple[WordPair, list[Link]] | None, tokens: bool) -> TranslatedText:
    if not translation.answers:
        return TranslatedText(text="", score=None, alternatives=[], parts=translation.parts)
    best, *others = (_answered(answer, tokens) for answer in translation.answers)
    found = TranslatedText(**best.model_dump(), alternatives=others, parts=translation.parts)
    if linked is not None:
        pair, links = linked
        found.source_words, found.target_words = pair.texts
        found.alignment = [
            Linked(source=link.source, target=link.target, weight=link.weight, uncertain=link.uncertain)
            for link in links
        ]
    return found


def _answered(answer: TranslationCandidate, tokens: bool) -> TranslationOut:
    found = TranslationOut(text=answer.text, score=finite(answer.score))
    if tokens:
        found.tokens, found.log_probabilities = answer.tokens, [finite(log_p) for log_p in answer.log_probabilities]
    return found


def _put_together(lines: Sequence[Translation]) -> list[str]:
    """The best of every line, the second, ...; a line that has no more gives its best again."""
    count = max(len(line.answers) for line in lines)
    texts = [[answer.text for answer in line.answers] or [line.source] for line in lines]
    every = ["\n".join(own[i] if i < len(own) else own[0] for own in texts) for i in range(max(1, count))]
    return list(dict.fromkeys(every))
