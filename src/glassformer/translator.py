"""Text in, text out: a model, its tokenizer and a search. Knows nothing of how the model came to be."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from glassformer import decoding
from glassformer.data import AnyTokenizer, ForeignTokenizer, IdsOnly
from glassformer.data.sentence_splitting import split
from glassformer.data.tokenizer import Side
from glassformer.decoding import Beam, Hypothesis, PlainStepModel, Request, SearchSettings
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.mbr import most_agreeable
from glassformer.engine import Engine, EngineOptions, SearchBackend, open_engine
from glassformer.errors import InputError
from glassformer.evaluation import sentence_chrf
from glassformer.inspection import HeadLoss, TokenNames, Trace, WhatIf, rank_heads, trace, what_if
from glassformer.inspection.interventions.changes import Change, ForcePrefix, ReplaceToken, apply, changed_request
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace_builder import means_for
from glassformer.model import Transformer, load_model
from glassformer.model_location import find_model, tokenizer_of

LONGEST = 512
"""Source tokens that are translated in one piece, unless told otherwise."""


@dataclass(frozen=True)
class Constraints:
    """What is asked of a text's translation."""

    prefix: str = ""
    """How it must begin."""
    phrases: tuple[str, ...] = ()
    """What must occur in it."""


@dataclass(frozen=True)
class TranslationCandidate:
    """One translation of a text, and how likely the model finds it."""

    text: str
    ids: list[int]
    """As the model wrote them, with the end of sentence."""
    tokens: list[str]
    """The same as one would show them; ▁ stands for a space."""
    log_probabilities: list[float]
    """Of each token after those before it, in nats."""
    score: float
    """What answers are compared by: the sum of them after the length penalty."""


@dataclass(frozen=True)
class Translation:
    """What became of a text."""

    source: str
    answers: list[TranslationCandidate]
    """Best first; none for a blank text."""
    parts: int = 1
    """How many parts the text was split into because it was too long; 0 for a blank text."""

    @property
    def text(self) -> str:
        """The best answer's; a blank text stays blank."""
        return self.answers[0].text if self.answers else ""


class Translator:
    """Translates text with a model that is ready to run."""

    def __init__(
        self,
        model: Transformer,
        tokenizer: AnyTokenizer | IdsOnly,
        search: SearchSettings | None = None,
        *,
        engine: Engine | None = None,
        max_tokens: int = LONGEST,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.search: SearchSettings = search or Beam()
        self.engine: Engine = engine or SearchBackend(PlainStepModel(model))
        self.together = 1
        """Models that answer."""
        self.max_tokens = min(max_tokens, self.engine.max_tokens or max_tokens)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *others: str | os.PathLike[str],
        search: SearchSettings | None = None,
        engine: EngineOptions | None = None,
        max_tokens: int = LONGEST,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> "Translator":
        """From a model directory, a run directory (then its best model) or the name of a built-in model.

        Several models with one tokenizer answer together, by the mean of their probabilities. A model of many
        languages is told which two it is about.
        """
        directories = [find_model(one) for one in (path, *others)]
        models = [load_model(directory) for directory in directories]
        tokenizers = [tokenizer_of(directory) for directory in directories]
        for directory, tokenizer in zip(directories, tokenizers, strict=True):
            if tokenizer.files() != tokenizers[0].files():
                raise InputError(
                    f"{directory} has another tokenizer than {directories[0]}: models that answer together share one."
                )
        tokenizer = in_languages(tokenizers[0], source_language, target_language)
        opened = open_engine(models, engine or EngineOptions(), directories[0])
        found = cls(models[0], tokenizer, search, engine=opened, max_tokens=max_tokens)
        found.together = len(models)
        return found

    @cached_property
    def _start(self) -> tuple[int, ...]:
        """What every target begins with, whatever is said: its language, with some models."""
        return tuple(self.tokenizer.encode("", "target")[:-1])

    def __call__(self, text: str) -> str:
        """The translation of one text."""
        return self.translate([text])[0]

    def translate(self, texts: Iterable[str]) -> list[str]:
        """One translation a text, in order; a blank text stays blank, and the model is not asked."""
        return [translation.text for translation in self.answer(texts)]

    def answer(
        self,
        texts: Iterable[str],
        wishes: Sequence[Constraints] | None = None,
        glossary: Mapping[str, str] | None = None,
        agree: bool = False,
    ) -> list[Translation]:
        """Each text's translations with their tokens and probabilities, `search.n_best` at most, in order.

        A text that is too long is split where sentences end. `glossary`: what must occur in the translation of every
        text in which a term occurs. `agree`: put first the answer that agrees most with all others (minimum Bayes risk
        with chrF) instead of the likeliest.
        """
        texts = list(texts)
        parts = [self._parts(text) for text in texts]
        wishes = wishes or [Constraints()] * len(texts)
        requests = [
            self._request(part, ids, wish if number == 0 else Constraints(), glossary or {})
            for own, wish in zip(parts, wishes, strict=True)
            for number, (part, ids) in enumerate(own)
        ]
        found = iter(self.engine.search(requests, self.search))
        return [
            Translation(text, self._answers([next(found) for _ in own], agree), len(own))
            for text, own in zip(texts, parts, strict=True)
        ]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[TranslationCandidate]:
        """How likely the model finds each given translation: the same numbers that its own would have."""
        if self.together > 1:
            raise InputError("Several models together translate, but do not score: ask them one by one.")
        encode = self.tokenizer.encode
        scored = decoding.score(
            self.model,
            [encode(text, "source") for text in sources],
            [encode(text, "target") for text in targets],
            self.search.length_penalty,
        )
        return [self._answer([hypothesis]) for hypothesis in scored]

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
        """A text's way through the model: every tap by name, and the tree of the search.

        With a `target`, the way of that translation instead of the model's own. `hypothesis`: which of those that the
        search ended is followed, the best first; `node`: any node of its tree. `steps`: only so many target positions.
        """
        search = self.search if isinstance(self.search, Beam) else Beam()
        return trace(
            self.model,
            self._request(text, self._whole(text, "source"), Constraints(), {}),
            None if target is None else self._whole(target, "target"),
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
        """The explorer of a text's way through the model, in a notebook: a widget that asks for what it shows.

        With `static`, or without the extra `notebook`, a page in a frame that needs no kernel. `name`: the model's.
        """
        import glassformer  # the front door, because notebooks stand above this room

        return glassformer.explore(self, text, target, beam=beam, static=static, name=name)

    def what_if(self, before: Trace, *changes: Change) -> WhatIf:
        """A traced text again, with these changes on top of those that its trace was made under."""
        return what_if(self.model, before, changes, self._names)

    def replacing(
        self, before: Trace, old: str, new: str, which: int = 0, after: Sequence[Change] = ()
    ) -> ReplaceToken:
        """The change that puts another word in the place of one of a traced source.

        `which`: of those that are so written, counted from 0. `after`: changes that are made before it, and may have
        put other tokens there.
        """
        ids = changed_request(Request(before.about.source.ids), after).source
        places = self._written(ids, old)
        if which < len(places):
            first, last = places[which]
            return ReplaceToken(position=first, count=last - first, ids=self._between(new))
        text, pieces = self.tokenizer.decode(ids, "source"), " ".join(self.tokenizer.pieces(ids, "source"))
        if places:
            raise InputError(f"{old!r} stands {len(places)} times in {text!r}, counted from 0, and none is {which}.")
        raise InputError(f"{old!r} does not stand in {text!r} as tokens of its own: {pieces}.")

    def beginning(self, text: str) -> ForcePrefix:
        """The change that makes a translation begin with a text."""
        return ForcePrefix(ids=list(self._forced(text)))

    def changed(self, *changes: Change, average_over: Sequence[str] = ()) -> "Translator":
        """A translator whose model is always changed so, to be scored or asked; this one stays as it is.

        `average_over`: the texts over which `AverageHead` takes its means.
        """
        for change in changes:
            if change.POSITIONAL:
                raise InputError(f"{change!r} speaks of positions in one sentence: ask `what_if` of that one's trace.")
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
        tell: Callable[[int, int], None] = lambda done, all_: None,
    ) -> list[HeadLoss]:
        """Every head by what its removal costs on these pairs (or on the model's own translations), dearest first.

        `tell` hears how many heads are done, and of how many.
        """
        targets = self.translate(sources) if targets is None else targets
        encode = self.tokenizer.encode
        return rank_heads(
            self.model,
            [encode(text, "source") for text in sources],
            [encode(text, "target") for text in targets],
            tell,
        )

    @cached_property
    def _names(self) -> TokenNames:
        return TokenNames(self.tokenizer.pieces, self.tokenizer.decode)

    def _whole(self, text: str, side: Side) -> list[int]:
        """The ids of a text that is to be looked at in one piece."""
        ids = self.tokenizer.encode(text, side)
        if len(ids) > self.max_tokens:
            raise InputError(
                f"A text of {len(ids)} tokens is more than the {self.max_tokens} that fit: trace a part of it."
            )
        return ids

    def _written(self, ids: Sequence[int], word: str) -> list[tuple[int, int]]:
        """Where a word stands among a source's ids: from which token on, up to but not with which."""
        found: list[tuple[int, int]] = []
        for first in range(len(ids)):
            if found and first < found[-1][1]:
                continue  # a mark before it, or it alone: the same word
            for last in range(first + 1, len(ids)):
                if self.tokenizer.decode(ids[first:last], "source").strip() == word:
                    found.append((first, last))
                    break
        return found

    def _between(self, text: str) -> list[int]:
        """The ids of part of a source, without what every source begins and ends with."""
        around, ids = self.tokenizer.encode("", "source"), self.tokenizer.encode(text, "source")
        differs = (i for i, (one, other) in enumerate(zip(around, ids, strict=False)) if one != other)
        before = next(differs, None)
        if before is None:
            raise InputError(f"{text!r} has no tokens that could stand in a word's place: write a word.")
        return ids[before : len(ids) - (len(around) - before)]

    def _parts(self, text: str) -> list[tuple[str, list[int]]]:
        """The text in parts that fit, each with its ids; none for a blank one."""
        if not text.strip():
            return []
        ids = self.tokenizer.encode(text, "source")
        if len(ids) <= self.max_tokens:  # as nearly always: it is encoded once
            return [(text, ids)]
        parts = split(text, lambda part: len(self.tokenizer.encode(part, "source")), self.max_tokens)
        return [(part, self.tokenizer.encode(part, "source")) for part in parts]

    def _request(self, text: str, ids: list[int], wish: Constraints, glossary: Mapping[str, str]) -> Request:
        terms = [translation for term, translation in glossary.items() if mentions(text, term)]
        return Request(
            ids,
            prefix=(*self._start, *self._forced(wish.prefix)),
            phrases=tuple(self._forced(phrase) for phrase in (*wish.phrases, *terms)),
        )

    def _forced(self, text: str) -> tuple[int, ...]:
        """The ids of part of a target, without what every target begins and ends with."""
        return tuple(self.tokenizer.encode(text, "target")[len(self._start) : -1]) if text else ()

    def _answers(self, parts: Sequence[list[Hypothesis]], agree: bool) -> list[TranslationCandidate]:
        """The texts of hypotheses, the same text once; of a split text the first of every part, the second, ..."""
        answers = [self._answer(hypotheses) for hypotheses in zip(*parts, strict=False)]
        if agree and answers:
            chosen = answers[most_agreeable([answer.text for answer in answers], sentence_chrf)]
            answers = [chosen, *answers]
        return list({answer.text: answer for answer in reversed(answers)}.values())[::-1]

    def _answer(self, parts: Sequence[Hypothesis]) -> TranslationCandidate:
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
    """The tokenizer for these languages; None leaves one as it is."""
    if source is None and target is None:
        return tokenizer
    if not isinstance(tokenizer, ForeignTokenizer):
        raise InputError(
            f"This model knows no language {source or target!r}: of its source and target it knows what its training "
            "data had."
        )
    return tokenizer.between(source, target)


def mentions(text: str, term: str) -> bool:
    """Whether a term stands in a text as words of its own."""
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None
