"""Translator: text in, text out, with a model, its tokenizer and a search. Independent of where the model came from."""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.data import AnyTokenizer, IdsOnly, ImportedTokenizer
from glassformer.data.sentence_splitting import split
from glassformer.data.word_spans import WordPair, word_pair
from glassformer.decoding import Attention, Beam, Head, Hypothesis, Request, SearchSettings
from glassformer.decoding.alignment_choice import AlignmentHeads, checked
from glassformer.decoding.attention_links import Link, word_links
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.mbr import mbr_index
from glassformer.engine import Engine, EngineOptions, open_engine
from glassformer.errors import InputError
from glassformer.model import HasWeights, ModelWeights

if TYPE_CHECKING:
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
    attention: Attention | None = field(default=None, repr=False, compare=False)
    """Cross-attention weights of the requested heads, if the search recorded them."""


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


class Translator(HasWeights):
    """Translates and scores text with a loaded model. To look inside the model: `glassformer.inspect(translator)`."""

    def __init__(
        self,
        model: "Transformer | ModelWeights",
        tokenizer: AnyTokenizer | IdsOnly,
        search: SearchSettings | None = None,
        *,
        engine: Engine | None = None,
        max_tokens: int = MAX_SOURCE_TOKENS,
    ) -> None:
        if not isinstance(model, ModelWeights):
            model.eval()
        self.weights = ModelWeights.of(model)
        self.tokenizer = tokenizer
        self.search: SearchSettings = search or Beam()
        self.engine: Engine = engine or open_engine([self.weights], EngineOptions(engine="plain"))
        self.n_models = 1
        """Number of models in the ensemble."""
        self.uses_shortlist = False
        """Whether translations are restricted to a vocabulary shortlist; scores of given translations never are."""
        self.directory: Path | None = None
        """The model directory that it was loaded from, if any."""
        self.max_tokens = min(max_tokens, self.engine.max_tokens or max_tokens)

    @cached_property
    def target_start(self) -> tuple[int, ...]:
        """The ids that every target begins with: the language token, for some models."""
        return tuple(self.tokenizer.encode("", "target")[:-1])

    @property
    def text_tokenizer(self) -> AnyTokenizer:
        """The tokenizer; an error if the model takes token ids only."""
        if isinstance(self.tokenizer, IdsOnly):
            raise InputError("The model has no tokenizer: it takes token ids, not text.")
        return self.tokenizer

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
        choice: AlignmentHeads | None = None,
    ) -> list[Translation]:
        """Translate texts to at most `search.n_best` candidates each, with tokens and probabilities, in order.

        A text that is too long is split at sentence ends. `glossary`: from a source term to the phrase that must occur
        in the translation of every text that contains the term. `mbr`: put first the candidate that agrees most with
        all others (minimum Bayes risk with chrF) instead of the most likely one. `choice`: heads whose attention the
        search records for `word_alignments`.
        """
        texts = list(texts)
        parts_of_texts = [self.parts(text) for text in texts]
        constraints = constraints or [NO_CONSTRAINTS] * len(texts)
        requests = [
            self.request(
                *(part, ids, constraint if number == 0 else NO_CONSTRAINTS, glossary),
                heads=choice.indices if choice and len(parts) == 1 else (),
            )
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
        scored = self.engine.score(
            [encode(text, "source") for text in sources],
            [encode(text, "target") for text in targets],
            self.search.length_penalty,
        )
        return [self._candidate([hypothesis]) for hypothesis in scored]

    def word_alignments(
        self, translations: Sequence[Translation], choice: AlignmentHeads
    ) -> list[tuple[WordPair, list[Link]] | None]:
        """Words and links of the best candidates; None for a text that was blank or split.

        From the attention that the search recorded for these heads; without it, the engine reads the translation again.
        """
        pairs = [None if one.id_pair is None else word_pair(self.tokenizer, *one.id_pair) for one in translations]
        recorded = [one.candidates[0].attention if one.candidates else None for one in translations]
        known = [(pair, weights) for pair, weights in zip(pairs, recorded, strict=True) if pair is not None]
        aligned = iter(self._links([pair for pair, _ in known], [weights for _, weights in known], choice))
        return [None if pair is None else (pair, next(aligned)) for pair in pairs]

    def align(
        self, pairs: Sequence[WordPair], choice: AlignmentHeads, at_least: float = 0.0, both_ways: bool = False
    ) -> list[list[Link]]:
        """Link the words of sentence pairs: each target word to the source word with the largest attention weight.

        `at_least` drops links with a smaller weight; `both_ways` keeps only links that are the largest for both words.
        """
        return self._links(pairs, [None] * len(pairs), choice, at_least, both_ways)

    def _links(
        self,
        pairs: Sequence[WordPair],
        attention: Sequence[Attention | None],
        choice: AlignmentHeads,
        at_least: float = 0.0,
        both_ways: bool = False,
    ) -> list[list[Link]]:
        """The links of sentence pairs; the attention of those where it is None is computed."""
        checked(choice, self.config)
        missing = [i for i, pair in enumerate(pairs) if attention[i] is None and pair.source and pair.target]
        ids = ([pairs[i].source_ids for i in missing], [pairs[i].target_ids for i in missing])
        known = {i: weights for i, weights in enumerate(attention) if weights is not None}
        known |= zip(missing, self.engine.attention(*ids, choice.indices), strict=True)
        links: list[list[Link]] = [[] for _ in pairs]
        for i, weights in known.items():
            links[i] = word_links(weights, pairs[i].source, pairs[i].target, choice, at_least, both_ways)
        return links

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
        heads: tuple[Head, ...] = (),
    ) -> Request:
        """What the search is asked for: the ids of a text, and the constraints on its translation as ids."""
        terms = [translation for term, translation in (glossary or {}).items() if mentions(text, term)]
        return Request(
            ids,
            prefix=(*self.target_start, *self.inner_target_ids(constraints.prefix)),
            phrases=tuple(self.inner_target_ids(phrase) for phrase in (*constraints.phrases, *terms)),
            heads=heads,
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
            from glassformer.evaluation import sentence_chrf

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
            attention=parts[0].attention if len(parts) == 1 else None,
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
