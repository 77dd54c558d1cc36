"""Corpus checks (`glassformer doctor`): finds suspicious pairs, with their line numbers, and writes a clean copy.

Two passes over the files: a scan, and one that compares each pair with the statistics of the scan.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from glassformer.atomic_directory import building, refuse_existing
from glassformer.data.corpus import Corpus, Pair, Watch, unwatched
from glassformer.data.corpus_scan import (
    MAX_LENGTH_RATIO,
    MAX_SIDE_CHARACTERS,
    Findings,
    SideSize,
    in_order,
    log_ratio,
    record,
    repaired,
    scan,
    source_keys,
)
from glassformer.data.line_shifts import Shift, describe
from glassformer.errors import DataError

TRIGRAM_PAIRS = 50_000  # enough to tell the languages of the two sides apart


@dataclass
class Diagnosis:
    """The problems found in a corpus, its size, and the number of pairs in its clean copy."""

    pairs: int
    kept: int
    """0 if the sides are shifted: then pairs are not compared, and there is no clean copy."""
    sizes: tuple[SideSize, SideSize]
    shifts: list[Shift]
    findings: Findings


def diagnose(
    corpus: Corpus, test: Corpus | None = None, fix: Path | None = None, watch: Watch = unwatched
) -> Diagnosis:
    """Check every pair of a corpus; with `fix`, write a clean copy to a new directory."""
    if fix is not None:
        refuse_existing(fix)  # before the work, not after it
    scanned = scan(corpus, set() if test is None else source_keys(scan(test)), watch)
    if scanned.shifts:
        if fix is not None:
            raise DataError(
                f"{corpus}: lines are shifted, so there is no clean copy. {describe(scanned.shifts, corpus)}"
            )
        return Diagnosis(scanned.pairs, 0, scanned.sizes, scanned.shifts, scanned.findings)
    language = LanguageClassifier.of(islice(corpus, TRIGRAM_PAIRS))
    findings = scanned.findings
    kept = 0

    def clean_pairs() -> Iterator[Pair]:
        nonlocal kept
        for pair, dropped in zip(map(repaired, watch(corpus, "comparing")), scanned.dropped, strict=True):
            kinds = _kinds(pair, scanned.mean_log_ratio, language)
            record(findings, kinds, pair.line)
            if not kinds and not dropped:
                kept += 1
                yield pair

    if fix is None:
        for _ in clean_pairs():
            pass
    else:
        with building(fix) as directory:
            _write(clean_pairs(), corpus, directory)
    return Diagnosis(scanned.pairs, kept, scanned.sizes, scanned.shifts, in_order(findings))


def _kinds(pair: Pair, mean_log_ratio: float, language: "LanguageClassifier") -> list[str]:
    """The kinds of findings of a repaired pair that are seen by comparison with the rest of its corpus."""
    if not pair.has_text:
        return []
    checks = {
        "length-ratio": abs(log_ratio(pair) - mean_log_ratio) > math.log(MAX_LENGTH_RATIO),
        "swapped": language.swapped(pair.source, pair.target),
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

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> "LanguageClassifier":
        """Trained on these pairs."""
        source: Counter[str] = Counter()
        target: Counter[str] = Counter()
        for pair in map(repaired, pairs):
            source.update(_trigrams(pair.source))
            target.update(_trigrams(pair.target))
        return cls(source, target)

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


def _write(pairs: Iterator[Pair], corpus: Corpus, directory: Path) -> None:
    """Write pairs in the format of the corpus, under the same file names, uncompressed."""
    with ExitStack() as stack:
        files = [
            stack.enter_context((directory / path.name.removesuffix(".gz")).open("w", encoding="utf-8", newline="\n"))
            for path in corpus.files
        ]
        for pair in pairs:
            for file, line in zip(files, corpus.format_pair(pair), strict=True):
                file.write(line + "\n")
