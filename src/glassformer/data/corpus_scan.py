"""One pass over a corpus for everything that must be known before training: size, checksums, problems, the dev split.

Every line is parsed, so a corpus that has been scanned can be read to its end. Findings are facts about pairs; whether
a finding is an error is for the user to decide. Memory use is 17 bytes per pair.
"""

import hashlib
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from glassformer.data.corpus import Corpus, Pair, TwoFiles, Watch, unwatched
from glassformer.data.line_shifts import Shift, ShiftFinder, find_shifts, where_files_part
from glassformer.errors import DataError

CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
LINE_BREAKS = re.compile("[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
"""Characters that other programs treat as line ends, but `corpus` does not."""

MAX_SIDE_CHARACTERS = 1000  # models are seldom trained on more
MAX_EXAMPLE_LINES = 5  # line numbers per kind of finding
MAX_LENGTH_RATIO = 4.0  # relative to the usual length ratio of the corpus

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
"""All kinds of findings; "length-ratio" and "swapped" need the statistics of a scan (`corpus_checks`)."""
REPAIRED = {"control", "line-break"}  # replaced by a space; "identical" is kept: names and numbers do not change
DROPPED = set(KINDS) - REPAIRED - {"identical"}
BLANK = 0  # instead of the hash of a pair with an empty side, which is not a duplicate


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


Findings = dict[str, Finding]
"""Findings by kind, in the order of `KINDS`; only the kinds that occur."""


@dataclass
class SideSize:
    """The size of one side of a corpus."""

    words: int = 0
    """Number of words between spaces."""
    characters: int = 0
    longest: int = 0
    """Characters of the longest text."""

    def add(self, text: str) -> None:
        self.words += len(text.split())
        self.characters += len(text)
        self.longest = max(self.longest, len(text))


@dataclass(frozen=True, eq=False)
class ScannedCorpus:
    """A corpus after its scan: all of it, or the part that `one_in` and `rest` select.

    The part is about one in `one_in` source sentences, with all its occurrences; with `rest`, it is all others. It
    depends only on the text, by a hash of the source sentence, so no source sentence is in both parts.
    """

    corpus: Corpus
    pairs: int
    """Number of pairs in the files."""
    digests: tuple[bytes, ...]
    """sha256 of each file."""
    sizes: tuple[SideSize, SideSize]
    """Sizes of the source and the target side."""
    shifts: list[Shift]
    """Where lines of the same number stop belonging together, and by how many lines; empty for sound text."""
    findings: Findings
    dropped: NDArray[np.bool_]
    """For every pair of the files, whether a clean copy leaves it out because of a finding of the scan."""
    mean_log_ratio: float
    """Mean of `log_ratio` over the pairs."""
    source_hashes: NDArray[np.uint64]
    """`source_hash` of every pair of the files that has text on both sides."""
    one_in: int = 1
    rest: bool = False

    @property
    def selection(self) -> str:
        """Description of which pairs of the files are selected; part of checksums."""
        return "all" if self.one_in == 1 else f"{'all but ' if self.rest else ''}one in {self.one_in}"

    def part(self, one_in: int) -> "ScannedCorpus":
        """About one in `one_in` source sentences of the corpus, with all its occurrences."""
        return replace(self, one_in=one_in)

    @property
    def complement(self) -> "ScannedCorpus":
        """The other part of the corpus: the pairs that are not selected here."""
        return replace(self, rest=not self.rest)

    @property
    def usable(self) -> int:
        """Number of selected pairs that have text on both sides."""
        selected = self.source_hashes % np.uint64(self.one_in) == 0
        return int(np.count_nonzero(selected != self.rest))

    def holds(self, pair: Pair) -> bool:
        """Whether a pair of the corpus is selected."""
        return self.one_in == 1 or (source_hash(pair) % self.one_in == 0) != self.rest

    def __iter__(self) -> Iterator[Pair]:
        return filter(self.holds, self.corpus)

    def __str__(self) -> str:
        return str(self.corpus) if self.one_in == 1 else f"{self.selection} of {self.corpus}"


def scan(corpus: Corpus, test_sources: Set[int] = frozenset(), watch: Watch = unwatched) -> ScannedCorpus:
    """Read a corpus once; `test_sources` are the `source_keys` of a test set that must not occur in it."""
    digests = [hashlib.sha256() for _ in corpus.files]
    statistics = _Statistics(test_sources)
    try:
        for pair in watch(corpus.read(digests), "checking"):
            statistics.add(pair)
    except DataError:
        statistics.check_lines(corpus)  # different numbers of lines are the first thing to know
        raise
    if not statistics.hashes:
        corpus.check()  # raises: a file is empty
    shifts = statistics.find_shifts(corpus, watch)
    return statistics.of(corpus, tuple(digest.digest() for digest in digests), shifts)


class _Statistics:
    """What a scan collects from pair to pair."""

    def __init__(self, test_sources: Set[int]) -> None:
        self.hashes, self._source_hashes, self._dropped = array("Q"), array("Q"), bytearray()
        self._findings: Findings = {}
        self._log_ratios = 0.0
        self._test_sources = test_sources
        self._sizes = SideSize(), SideSize()
        self._shift_finder = ShiftFinder()

    def add(self, pair: Pair) -> None:
        clean_pair = repaired(pair)
        kinds = _kinds(pair, clean_pair, self._test_sources)
        record(self._findings, kinds, pair.line)
        self.hashes.append(_hash(*clean_pair[1:]) if clean_pair.has_text else BLANK)
        self._dropped.append(not DROPPED.isdisjoint(kinds))
        self._log_ratios += log_ratio(clean_pair)
        if pair.has_text:
            self._source_hashes.append(source_hash(pair))
        for size, text in zip(self._sizes, pair[1:], strict=True):
            size.add(text)
        self._shift_finder.add(pair)

    def check_lines(self, corpus: Corpus) -> None:
        """Raise the error of two files with different numbers of lines, with the place where they part, if known."""

        if not isinstance(corpus, TwoFiles):
            return

        def where_they_part(source: int, target: int) -> str:
            is_complete = self._shift_finder.pairs == min(source, target)
            return where_files_part(corpus, self._shift_finder, target - source) if is_complete else ""

        corpus.check(where_they_part)

    def find_shifts(self, corpus: Corpus, watch: Watch) -> list[Shift]:
        """Where the sides part; what this took is given back."""
        finder, self._shift_finder = self._shift_finder, ShiftFinder()
        return find_shifts(corpus, finder, watch)

    def of(self, corpus: Corpus, digests: tuple[bytes, ...], shifts: list[Shift]) -> ScannedCorpus:
        hashes = np.frombuffer(self.hashes, np.uint64)
        repeated = hashes != BLANK
        repeated[np.unique(hashes, return_index=True)[1]] = False  # the first occurrences
        if lines := (np.flatnonzero(repeated) + 1).tolist():
            self._findings["duplicate"] = Finding("duplicate", len(lines), lines[:MAX_EXAMPLE_LINES])
        return ScannedCorpus(
            corpus,
            pairs=len(hashes),
            digests=digests,
            sizes=self._sizes,
            shifts=shifts,
            findings=in_order(self._findings),
            dropped=np.frombuffer(self._dropped, np.bool_) | repeated,
            mean_log_ratio=self._log_ratios / len(hashes),
            source_hashes=np.frombuffer(self._source_hashes, np.uint64),
        )


def repaired(pair: Pair) -> Pair:
    """The pair with control characters and line breaks replaced by spaces, and both sides stripped."""
    source, target = (LINE_BREAKS.sub(" ", CONTROL.sub(" ", text)).strip() for text in pair[1:])
    return Pair(pair.line, source, target)


def record(findings: Findings, kinds: Iterable[str], line: int) -> None:
    """Add the kinds of findings of the pair in this line."""
    for kind in kinds:
        findings.setdefault(kind, Finding(kind)).add(line)


def in_order(findings: Findings) -> Findings:
    """The findings in the order of `KINDS`."""
    return {kind: findings[kind] for kind in KINDS if kind in findings}


def source_keys(corpus: Iterable[Pair]) -> set[int]:
    """Hashes of the sources, equal for texts that differ only in case and whitespace."""
    return {_key(repaired(pair).source) for pair in corpus}


def source_hash(pair: Pair) -> int:
    """The hash by which a source sentence is held out for the dev set, or not."""
    return int.from_bytes(hashlib.sha256(pair.source.strip().encode()).digest()[:8], "big")


def log_ratio(pair: Pair) -> float:
    """Logarithm of the length ratio; the 10 dampens the ratios of short sentences."""
    return math.log((len(pair.target) + 10) / (len(pair.source) + 10))


def _kinds(pair: Pair, clean_pair: Pair, test_sources: Set[int]) -> list[str]:
    """The kinds of findings that are seen from the pair alone, given as it is in the file and `repaired`."""
    _, source, target = clean_pair
    if not source or not target:
        return ["one-sided" if source or target else "empty"]
    text = pair.source + pair.target
    checks = {
        "identical": source == target,
        "overlong": max(len(source), len(target)) > MAX_SIDE_CHARACTERS,
        "control": CONTROL.search(text) is not None,
        "line-break": LINE_BREAKS.search(text) is not None,
        "leaked": bool(test_sources) and _key(source) in test_sources,
    }
    return [kind for kind, applies in checks.items() if applies]


def _key(text: str) -> int:
    return _hash(" ".join(text.casefold().split()))


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
