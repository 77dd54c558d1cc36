"""Translator: text in, text out, with a model, its tokenizer and a search. Independent of where the model came from."""

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer import decoding
from glassformer.data import AnyTokenizer, ForeignTokenizer, IdsOnly
from glassformer.data.sentence_splitting import split
from glassformer.data.tokenizer import Side
from glassformer.decoding import Beam, Hypothesis, PlainStepModel, Request, SearchSettings
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.mbr import mbr_index
from glassformer.engine import Engine, SearchBackend
from glassformer.errors import InputError
from glassformer.evaluation import sentence_chrf
from glassformer.inspection import HeadLoss, TokenNames, Trace, WhatIf, rank_heads, trace, what_if
from glassformer.inspection.interventions.changes import Change, ForcePrefix, ReplaceToken, apply, changed_request
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace_builder import means_for
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
    """Translates text with a loaded model, and traces, scores and modifies it."""

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
    def _target_start(self) -> tuple[int, ...]:
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
        for name in ("_target_start", "_names"):  # computed with this one's tokenizer
            vars(other).pop(name, None)
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
        parts_of_texts = [self._parts(text) for text in texts]
        constraints = constraints or [Constraints()] * len(texts)
        requests = [
            self._request(part, ids, constraint if number == 0 else Constraints(), glossary or {})
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

    def trace(
        self,
        text: str,
        target: str | None = None,
        *,
        beam: int | None = None,
        hypothesis: int = 0,
        node: int | None = None,
        steps: int | None = None,
        changes: Sequence[Change] = (),
    ) -> Trace:
        """Trace the translation of a text: all values of the forward pass by tap name, and the search tree.

        `target`: trace this translation instead of the model's own. `hypothesis`: which finished hypothesis of the
        search to trace, the best being 0; `node`: any node of the search tree. `steps`: number of target positions.
        """
        search = self.search if isinstance(self.search, Beam) else Beam()
        return trace(
            self.model,
            self._request(text, self._encode_unsplit(text, "source"), Constraints(), {}),
            None if target is None else self._encode_unsplit(target, "target"),
            search=search if beam is None else search.model_copy(update={"size": beam}),
            names=self._names,
            changes=changes,
            hypothesis=hypothesis,
            node=node,
            steps=steps,
        )

    def explore(
        self, text: str, target: str | None = None, *, beam: int = 4, static: bool = False, name: str = ""
    ) -> Any:
        """Show the explorer for a text in a notebook: a widget that loads its data from the kernel.

        With `static`, or without the extra `notebook`, a page in a frame that needs no kernel. `name`: the model's.
        """
        import glassformer  # the top-level package, because this module may not import `notebook`

        return glassformer.explore(self, text, target, beam=beam, static=static, name=name)

    def what_if(self, before: Trace, *changes: Change) -> WhatIf:
        """Run a traced text again with interventions, on top of those of its trace, and compare."""
        return what_if(self.model, before, changes, self._names)

    def replacing(
        self, before: Trace, old: str, new: str, which: int = 0, after: Sequence[Change] = ()
    ) -> ReplaceToken:
        """Make the intervention that replaces a word of a traced source by another.

        `which`: index among several occurrences, from 0. `after`: changes that are applied first and may have changed
        the source tokens.
        """
        ids = changed_request(Request(before.about.source.ids), after).source
        spans = self._word_spans(ids, old)
        if which < len(spans):
            first, last = spans[which]
            return ReplaceToken(position=first, count=last - first, ids=self._inner_source_ids(new))
        text, pieces = self.tokenizer.decode(ids, "source"), " ".join(self.tokenizer.pieces(ids, "source"))
        if spans:
            raise InputError(f"Occurrence {which} of {old!r} in {text!r} is out of range (0 to {len(spans) - 1}).")
        raise InputError(f"{old!r} does not occur in {text!r}; its tokens are: {pieces}.")

    def beginning(self, text: str) -> ForcePrefix:
        """Make the intervention that forces a translation to begin with a text."""
        return ForcePrefix(ids=list(self._inner_target_ids(text)))

    def changed(self, *changes: Change, average_over: Sequence[str] = ()) -> "Translator":
        """A translator whose model has these changes in every translation; this one is not modified.

        `average_over`: the texts over which `AverageHead` takes its means.
        """
        for change in changes:
            if change.POSITIONAL:
                raise InputError(f"{change!r} refers to positions of one sentence: use `what_if` with its trace.")
        model = weight_sharing_copy(self.model)
        requests = [
            self._request(text, ids, Constraints(), {}) for text in average_over for _, ids in self._parts(text)
        ]
        apply(model, changes, means_for(changes, self.model, requests, self.search))
        return Translator(model, self.tokenizer, self.search, max_tokens=self.max_tokens)

    def rank_heads(
        self,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[HeadLoss]:
        """Rank all heads by the loss of removing them on these pairs (or the model's own translations), largest first.

        `progress` is called with the number of heads done and their total number.
        """
        targets = self.translate(sources) if targets is None else targets
        encode = self.tokenizer.encode
        return rank_heads(
            self.model,
            [encode(text, "source") for text in sources],
            [encode(text, "target") for text in targets],
            progress,
        )

    @cached_property
    def _names(self) -> TokenNames:
        return TokenNames(self.tokenizer.pieces, self.tokenizer.decode)

    def _encode_unsplit(self, text: str, side: Side) -> list[int]:
        """The ids of a text that cannot be split into parts."""
        ids = self.tokenizer.encode(text, side)
        if len(ids) > self.max_tokens:
            raise InputError(f"The text has {len(ids)} tokens; the limit is {self.max_tokens}. Trace a part of it.")
        return ids

    def _word_spans(self, ids: Sequence[int], word: str) -> list[tuple[int, int]]:
        """The token spans (first, end) of a word among a source's ids."""
        spans: list[tuple[int, int]] = []
        for first in range(len(ids)):
            if spans and first < spans[-1][1]:
                continue  # inside the span just found: the same word, without the mark before it
            for last in range(first + 1, len(ids)):
                if self.tokenizer.decode(ids[first:last], "source").strip() == word:
                    spans.append((first, last))
                    break
        return spans

    def _inner_source_ids(self, text: str) -> list[int]:
        """The ids of a text as part of a source, without the special tokens at the ends of every source."""
        empty, ids = self.tokenizer.encode("", "source"), self.tokenizer.encode(text, "source")
        differs = (i for i, (one, other) in enumerate(zip(empty, ids, strict=False)) if one != other)
        before = next(differs, None)
        if before is None:
            raise InputError(f"{text!r} contains no word: give the word that replaces the other.")
        return ids[before : len(ids) - (len(empty) - before)]

    def _parts(self, text: str) -> list[tuple[str, list[int]]]:
        """Split a text into parts within the length limit, each with its ids; empty for a blank text."""
        if not text.strip():
            return []
        ids = self.tokenizer.encode(text, "source")
        if len(ids) <= self.max_tokens:  # the usual case: encoded only once
            return [(text, ids)]
        parts = split(text, lambda part: len(self.tokenizer.encode(part, "source")), self.max_tokens)
        return [(part, self.tokenizer.encode(part, "source")) for part in parts]

    def _request(self, text: str, ids: list[int], constraints: Constraints, glossary: Mapping[str, str]) -> Request:
        terms = [translation for term, translation in glossary.items() if mentions(text, term)]
        return Request(
            ids,
            prefix=(*self._target_start, *self._inner_target_ids(constraints.prefix)),
            phrases=tuple(self._inner_target_ids(phrase) for phrase in (*constraints.phrases, *terms)),
        )

    def _inner_target_ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text as part of a target, without the special tokens at the ends of every target."""
        return tuple(self.tokenizer.encode(text, "target")[len(self._target_start) : -1]) if text else ()

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
    if not isinstance(tokenizer, ForeignTokenizer):
        raise InputError(
            f"This model does not support the language {source or target!r}: it was trained for one language pair. "
            "Leave out the language options."
        )
    return tokenizer.with_languages(source, target)


def mentions(text: str, term: str) -> bool:
    """Whether a term occurs in a text as whole words."""
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None
