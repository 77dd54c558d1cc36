"""Translator: text in, text out, with a model, its tokenizer and a search. Independent of where the model came from."""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from glassformer import decoding
from glassformer.data import AnyTokenizer, IdsOnly, ImportedTokenizer
from glassformer.data.sentence_splitting import split
from glassformer.decoding import Beam, Hypothesis, PlainStepModel, Request, SearchBackend, SearchSettings
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.mbr import mbr_index
from glassformer.engine import Engine
from glassformer.errors import InputError
from glassformer.evaluation import sentence_chrf
from glassformer.model import Transformer

MAX_SOURCE_TOKENS = 512
"""Default maximum length of a source in tokens: a longer source is split into parts."""


@dataclass(frozen=True)
class Constraints:
    """Hard constraints on the translation of a text."""

    prefix: str = ""
    """Text that the translation must begin with."""
    phrases: tuple[str, ...] = ()
    """Phrases that must occur in the translation."""


NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True)
class TranslationCandidate:
    """One candidate translation of a text, with its probabilities under the model."""

    text: str
    ids: list[int]
    """Token ids as generated, with the end-of-sentence token."""
    tokens: list[str]
    """The tokens as text, for display; ▁ stands for a space."""
    log_probabilities: list[float]
    """Log-probability of each token given the ones before it, in nats."""
    score: float
    """Score by which candidates are ranked: the sum of the log-probabilities after the length penalty."""


@dataclass(frozen=True)
class Translation:
    """The result of translating one text."""

    source: str
    candidates: list[TranslationCandidate]
    """The candidates, best first; empty for a blank text."""
    parts: int = 1
    """Number of parts that a text over the length limit was split into; 0 for a blank text."""
    source_ids: list[int] | None = None
    """Token ids of the source; None if it was blank or split."""

    @property
    def id_pair(self) -> tuple[list[int], list[int]] | None:
        """Source and target ids of the best candidate, for word alignment; None if the source was blank or split."""
        return None if self.source_ids is None else (self.source_ids, self.candidates[0].ids)

    @property
    def text(self) -> str:
        """The text of the best candidate; a blank text stays blank."""
        return self.candidates[0].text if self.candidates else ""


class Translator:
    """Translates and scores text with a loaded model. To look inside the model: `glassformer.inspect(translator)`."""

    def __init__(
        self,
        model: Transformer,
        tokenizer: AnyTokenizer | IdsOnly,
        search: SearchSettings | None = None,
        *,
        engine: Engine | None = None,
        max_tokens: int = MAX_SOURCE_TOKENS,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.search: SearchSettings = search or Beam()
        self.engine: Engine = engine or SearchBackend(PlainStepModel(model))
        self.n_models = 1
        """Number of models in the ensemble."""
        self.directory: Path | None = None
        """The model directory that it was loaded from, if any."""
        self.max_tokens = min(max_tokens, self.engine.max_tokens or max_tokens)

    @cached_property
    def target_start(self) -> tuple[int, ...]:
        """The ids that every target begins with: the language token, for some models."""
        return tuple(self.tokenizer.encode("", "target")[:-1])

    def replace(
        self,
        *,
        search: SearchSettings | None = None,
        tokenizer: AnyTokenizer | IdsOnly | None = None,
        engine: Engine | None = None,
    ) -> "Translator":
        """A translator with another search, tokenizer (of other languages) or engine, which shares the model."""
        other = copy.copy(self)
        vars(other).pop("target_start", None)  # computed with this one's tokenizer
        other.search = self.search if search is None else search
        other.tokenizer = self.tokenizer if tokenizer is None else tokenizer
        other.engine = self.engine if engine is None else engine
        return other

    def __call__(self, text: str) -> str:
        """Translate one text."""
        return self.translate([text])[0]

    def translate(self, texts: Iterable[str]) -> list[str]:
        """Translate several texts, in order; a blank text stays blank, without running the model."""
        return [translation.text for translation in self.translations(texts)]

    def translations(
        self,
        texts: Iterable[str],
        constraints: Sequence[Constraints] | None = None,
        glossary: Mapping[str, str] | None = None,
        mbr: bool = False,
    ) -> list[Translation]:
        """Translate texts to at most `search.n_best` candidates each, with tokens and probabilities, in order.

        A text that is too long is split at sentence ends. `glossary`: from a source term to the phrase that must occur
        in the translation of every text that contains the term. `mbr`: put first the candidate that agrees most with
        all others (minimum Bayes risk with chrF) instead of the most likely one.
        """
        texts = list(texts)
        parts_of_texts = [self.parts(text) for text in texts]
        constraints = constraints or [NO_CONSTRAINTS] * len(texts)
        requests = [
            self.request(part, ids, constraint if number == 0 else NO_CONSTRAINTS, glossary)
            for parts, constraint in zip(parts_of_texts, constraints, strict=True)
            for number, (part, ids) in enumerate(parts)
        ]
        results = iter(self.engine.search(requests, self.search))
        return [
            Translation(
                text,
                self._candidates([next(results) for _ in parts], mbr),
                len(parts),
                parts[0][1] if len(parts) == 1 else None,
            )
            for text, parts in zip(texts, parts_of_texts, strict=True)
        ]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[TranslationCandidate]:
        """Score given translations: their probabilities, computed as for the model's own."""
        if self.n_models > 1:
            raise InputError("An ensemble cannot score translations: score with each model separately.")
        encode = self.tokenizer.encode
        scored = decoding.score(
            self.model,
            [encode(text, "source") for text in sources],
            [encode(text, "target") for text in targets],
            self.search.length_penalty,
        )
        return [self._candidate([hypothesis]) for hypothesis in scored]

    def parts(self, text: str) -> list[tuple[str, list[int]]]:
        """Split a text into parts within the length limit, each with its ids; empty for a blank text."""
        if not text.strip():
            return []
        ids = self.tokenizer.encode(text, "source")
        if len(ids) <= self.max_tokens:  # the usual case: encoded only once
            return [(text, ids)]
        parts = split(text, lambda part: len(self.tokenizer.encode(part, "source")), self.max_tokens)
        return [(part, self.tokenizer.encode(part, "source")) for part in parts]

    def request(
        self,
        text: str,
        ids: list[int],
        constraints: Constraints = NO_CONSTRAINTS,
        glossary: Mapping[str, str] | None = None,
    ) -> Request:
        """What the search is asked for: the ids of a text, and the constraints on its translation as ids."""
        terms = [translation for term, translation in (glossary or {}).items() if mentions(text, term)]
        return Request(
            ids,
            prefix=(*self.target_start, *self.inner_target_ids(constraints.prefix)),
            phrases=tuple(self.inner_target_ids(phrase) for phrase in (*constraints.phrases, *terms)),
        )

    def inner_target_ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text as part of a target, without the special tokens at the ends of every target."""
        return tuple(self.tokenizer.encode(text, "target")[len(self.target_start) : -1]) if text else ()

    def _candidates(self, parts: Sequence[list[Hypothesis]], mbr: bool) -> list[TranslationCandidate]:
        """Make candidates with distinct texts from the hypotheses of a text's parts.

        The best hypotheses of all parts are joined, then the second best, and so on.
        """
        candidates = [self._candidate(hypotheses) for hypotheses in zip(*parts, strict=False)]
        if mbr and candidates:
            chosen = candidates[mbr_index([candidate.text for candidate in candidates], sentence_chrf)]
            candidates = [chosen, *candidates]
        return list({candidate.text: candidate for candidate in reversed(candidates)}.values())[::-1]

    def _candidate(self, parts: Sequence[Hypothesis]) -> TranslationCandidate:
        tokens = [token for hypothesis in parts for token in hypothesis.tokens]
        log_ps = [log_p for hypothesis in parts for log_p in hypothesis.log_probabilities]
        return TranslationCandidate(
            text=" ".join(self.tokenizer.decode(hypothesis.tokens) for hypothesis in parts),
            ids=tokens,
            tokens=self.tokenizer.pieces(tokens, "target"),
            log_probabilities=log_ps,
            score=penalised(sum(log_ps), len(log_ps), self.search.length_penalty),
        )


def in_languages(tokenizer: AnyTokenizer, source: str | None, target: str | None) -> AnyTokenizer:
    """A tokenizer set to these languages; None leaves a language unchanged."""
    if source is None and target is None:
        return tokenizer
    if not isinstance(tokenizer, ImportedTokenizer):
        raise InputError(
            f"This model does not support the language {source or target!r}: it was trained for one language pair. "
            "Leave out the language options."
        )
    return tokenizer.with_languages(source, target)


def mentions(text: str, term: str) -> bool:
    """Whether a term occurs in a text as whole words."""
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None
