"""Scores of a model: of its translations of a test set (`evaluate`), and of given translations (`score`)."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from glassformer.data.corpus import corpus, read_lines
from glassformer.data.given_texts import listed_texts
from glassformer.decoding.search_choice import SearchOptions
from glassformer.errors import InputError
from glassformer.evaluation import TOKENIZATIONS, MetricScore, Tokenization, measure
from glassformer.extras import require
from glassformer.loading import Where, as_translator
from glassformer.translation import TranslationCandidate
from glassformer.translator import Translator

Texts = str | os.PathLike[str] | Iterable[str]
"""The path of a text file, one text per line; or the texts themselves."""


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model on a test set, with sacrebleu's signatures."""

    bleu: MetricScore
    chrf: MetricScore
    ter: MetricScore
    translations: list[str] = field(repr=False)
    """The translations that were scored."""
    baseline: "Evaluation | None" = None
    """The scores of the model that it was compared with."""


def evaluate(
    model: Translator | Where,
    source: Texts,
    reference: Texts | None = None,
    *,
    against: Translator | Where | Sequence[str] | None = None,
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
    **search: Unpack[SearchOptions],
) -> Evaluation:
    """Score a model on a test set: BLEU, chrF and TER with sacrebleu's signatures.

    >>> evaluation = gf.evaluate("street", source="test.en", reference="test.de", beam=5)
    >>> evaluation.bleu.score > 50
    True
    >>> evaluation.bleu.signature.partition("|")[0]
    'nrefs:1'

    `source` and `reference` are text files, line by line, or lists; or `source` is a .tsv or .jsonl file with both
    sides. `against`: another model, or a list of translations, which the model is compared with by a paired bootstrap
    test; the scores then have confidence intervals and p-values. `search`: options of the search, such as `beam`.
    """
    require("sacrebleu")
    if tokenize not in TOKENIZATIONS:
        raise InputError(f"tokenize = {tokenize!r} should be one of {', '.join(TOKENIZATIONS)}.")
    sources, references = _pairs(source, reference)
    translations = as_translator(model).translate(sources, **search)
    if against is None:
        [scores] = measure([translations], references, tokenize, lowercase)
        return _evaluation(scores, translations)
    if isinstance(against, Translator | str | os.PathLike):
        others = as_translator(against).translate(sources, **search)
    else:
        others = listed_texts(against, "against")
    first, second = measure([others, translations], references, tokenize, lowercase)
    return _evaluation(second, translations, _evaluation(first, others))


def _evaluation(
    scores: Sequence[MetricScore], translations: list[str], baseline: Evaluation | None = None
) -> Evaluation:
    bleu, chrf, ter = scores
    return Evaluation(bleu, chrf, ter, translations, baseline)


@dataclass(frozen=True)
class ScoredPairs:
    """The probabilities of given translations under a model."""

    candidates: list[TranslationCandidate] = field(repr=False)
    """Each translation with its score, its tokens, and their log-probabilities."""
    perplexity: float
    """Perplexity per token of all pairs."""

    @property
    def scores(self) -> list[float]:
        """The score of each pair: its log-probability / length ** length penalty."""
        return [candidate.score for candidate in self.candidates]


def score(
    model: Translator | Where, source: Texts, target: Texts | None = None, *, length_penalty: float = 1.0
) -> ScoredPairs:
    """Score given translations by their log-probability, the same number that `translate` gives that translation.

    >>> scored = gf.score("street", source="test.en", target="test.de")
    >>> len(scored.scores) == len(scored.candidates) and scored.perplexity >= 1
    True

    `source` and `target` are text files, line by line, or lists; or `source` is a .tsv or .jsonl file with both sides.
    """
    translator = as_translator(model).with_search(length_penalty=length_penalty)
    candidates = translator.score(*_pairs(source, target))
    log_probabilities = [log_p for candidate in candidates for log_p in candidate.log_probabilities]
    mean = sum(log_probabilities) / max(1, len(log_probabilities))
    return ScoredPairs(candidates, math.exp(min(-mean, 700)))


def _pairs(source: Texts, target: Texts | None) -> tuple[list[str], list[str]]:
    """Both sides of a parallel text, given as files or as lists."""
    if isinstance(source, str | os.PathLike) and (target is None or isinstance(target, str | os.PathLike)):
        data = corpus(Path(source), None if target is None else Path(target))
        data.check()
        pairs = list(data)
        return [pair.source for pair in pairs], [pair.target for pair in pairs]
    if target is None:
        raise InputError("There are sources and no targets: give one for each source.")
    sides = [
        list(read_lines(Path(side))) if isinstance(side, str | os.PathLike) else listed_texts(side, name)
        for side, name in ((source, "source"), (target, "target"))
    ]
    return sides[0], sides[1]
