"""Corpus validation: finds suspicious pairs, with their line numbers, and writes a clean copy.

Findings are facts about pairs; whether a finding is an error is for the user to decide. Two passes over the files: one
to collect statistics, one to check each pair. Memory use is nine bytes per pair.
"""

import hashlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.atomic_directory import building, refuse_existing
from glassformer.data.corpus import Corpus, OneFile, Pair, TwoFiles, Watch, unwatched

CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
LINE_BREAKS = re.compile("[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
"""Characters that other programs treat as line ends, but `corpus` does not."""

MAX_SIDE_CHARACTERS = 1000  # models are seldom trained on more
MAX_LENGTH_RATIO = 4.0  # relative to the usual length ratio of the corpus
TRIGRAM_PAIRS = 50_000  # enough to tell the languages of the two sides apart
MAX_EXAMPLE_LINES = 5  # line numbers per kind of finding

KINDS = {
    "empty": "both sides are empty",
    "one-sided": "one side is empty, the other is not",
    "duplicate": "repeats an earlier pair",
    "identical": "source and target are the same text",
    "length-ratio": f"one side is more than {MAX_LENGTH_RATIO:g} times longer than usual in this corpus",
    "overlong": f"a side has more than {MAX_SIDE_CHARACTERS:,} characters",
    "control": "control characters: NUL, escapes, a stray byte order mark",
    "line-break": "characters that other programs treat as line ends: \\r, \\v, \\f, U+0085, U+2028, U+2029",
    "swapped": "each side looks like the other side's language",
    "leaked": "the source is also in the test set",
}
REPAIRED = {"control", "line-break"}  # replaced by a space; "identical" is kept: names and numbers do not change
DROPPED = set(KINDS) - REPAIRED - {"identical"}


@dataclass
class Finding:
    """One kind of problem found in a corpus: the number of pairs, and the lines of the first few."""

    kind: str
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < MAX_EXAMPLE_LINES:
            self.lines.append(line)


@dataclass
class Diagnosis:
    """The problems found in a corpus, and the number of pairs in its clean copy."""

    pairs: int
    kept: int
    findings: dict[str, Finding]
    """Findings by kind; only the kinds that occur."""


def repaired(pair: Pair) -> Pair:
    """The pair with control characters and line breaks replaced by spaces, and both sides stripped."""
    source, target = (LINE_BREAKS.sub(" ", CONTROL.sub(" ", text)).strip() for text in pair[1:])
    return Pair(pair.line, source, target)


def diagnose(
    corpus: TwoFiles | OneFile, test: Corpus | None = None, fix: Path | None = None, watch: Watch = unwatched
) -> Diagnosis:
    """Check every pair of a corpus; with `fix`, write a clean copy to a new directory."""
    if fix is not None:
        refuse_existing(fix)  # before the work, not after it
    pairs = corpus.check()
    if test is not None:
        test.check()
    checker = PairChecker(corpus, test, watch)
    findings: dict[str, Finding] = {}
    kept = 0

    def clean_pairs() -> Iterator[Pair]:
        nonlocal kept
        for pair in watch(corpus, "checking"):
            clean_pair = repaired(pair)
            kinds = checker.kinds(pair, clean_pair)
            for kind in kinds:
                findings.setdefault(kind, Finding(kind)).add(pair.line)
            if not DROPPED.intersection(kinds):
                kept += 1
                yield clean_pair

    if fix is None:
        for _ in clean_pairs():
            pass
    else:
        with building(fix) as directory:
            _write(clean_pairs(), corpus, directory)
    return Diagnosis(pairs, kept, {kind: findings[kind] for kind in KINDS if kind in findings})


class PairChecker:
    """Checks pairs against the statistics of their corpus."""

    def __init__(self, corpus: Corpus, test: Corpus | None, watch: Watch) -> None:
        trigrams: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._test_sources = set() if test is None else {_key(repaired(pair).source) for pair in test}
        hashes, ratios = array("Q"), 0.0
        for pair in map(repaired, watch(corpus, "collecting statistics")):
            hashes.append(_hash(pair.source, pair.target))
            ratios += _log_ratio(pair)
            if pair.line <= TRIGRAM_PAIRS:
                trigrams[0].update(_trigrams(pair.source))
                trigrams[1].update(_trigrams(pair.target))
        self._usual_ratio = ratios / len(hashes)
        self._language = LanguageClassifier(*trigrams)
        self._is_first = _first_occurrences(np.frombuffer(hashes, dtype=np.uint64))

    def kinds(self, pair: Pair, clean_pair: Pair) -> list[str]:
        """All kinds of findings for a pair, given as it is in the file and `repaired`."""
        text = pair.source + pair.target
        _, source, target = clean_pair
        if not source or not target:
            return ["one-sided" if source or target else "empty"]
        checks = {
            "duplicate": not self._is_first[pair.line - 1],
            "identical": source == target,
            "length-ratio": abs(_log_ratio(clean_pair) - self._usual_ratio) > math.log(MAX_LENGTH_RATIO),
            "overlong": max(len(source), len(target)) > MAX_SIDE_CHARACTERS,
            "control": CONTROL.search(text) is not None,
            "line-break": LINE_BREAKS.search(text) is not None,
            "swapped": self._language.swapped(source, target),
            "leaked": _key(source) in self._test_sources,
        }
        return [kind for kind, applies in checks.items() if applies]


class LanguageClassifier:
    """Tells the source language from the target language by character trigrams (naive Bayes, add-one smoothing)."""

    def __init__(self, source: Counter[str], target: Counter[str]) -> None:
        sizes = [side.total() + len(side) + 1 for side in (source, target)]
        self._unseen = math.log(sizes[0] / sizes[1])
        self._log_odds = {
            trigram: self._unseen + math.log((target[trigram] + 1) / (source[trigram] + 1))
            for trigram in source.keys() | target.keys()
        }

    def log_odds(self, text: str) -> float:
        """log p(text as target) - log p(text as source), with independent trigrams."""
        return sum(self._log_odds.get(trigram, self._unseen) for trigram in _trigrams(text))

    def swapped(self, source: str, target: str) -> bool:
        """Whether the pair is far more likely the other way round: by more than half a nat per character."""
        characters = len(source) + len(target)
        return characters >= 16 and self.log_odds(source) - self.log_odds(target) > characters / 2


def _trigrams(text: str) -> list[str]:
    padded = f" {text[:MAX_SIDE_CHARACTERS].casefold()} "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]


def _log_ratio(pair: Pair) -> float:
    return math.log((len(pair.target) + 10) / (len(pair.source) + 10))  # the 10 dampens the ratios of short sentences


def _key(text: str) -> int:
    """A hash that is equal for texts that differ only in case and whitespace."""
    return _hash(" ".join(text.casefold().split()))


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _first_occurrences(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    first = np.zeros(len(hashes), dtype=np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    return first


def _write(pairs: Iterator[Pair], corpus: TwoFiles | OneFile, directory: Path) -> None:
    """Write pairs in the format of the corpus, under the same file names, uncompressed."""
    with ExitStack() as stack:
        files = [
            stack.enter_context((directory / path.name.removesuffix(".gz")).open("w", encoding="utf-8", newline="\n"))
            for path in corpus.files
        ]
        for pair in pairs:
            for file, line in zip(files, corpus.format_pair(pair), strict=True):
                file.write(line + "\n")
