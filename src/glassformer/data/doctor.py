"""What is wrong with a corpus, line by line, and a clean copy of it.

Findings are facts about pairs; whether a fact is a fault is the user's to say. Two passes over the files: one to learn
what is usual in them, one to judge. Memory is nine bytes a pair.
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
"""What other programs take for the end of a line, and we do not."""

LONGEST = 1000  # characters; models are seldom trained on more
RATIO = 4.0  # how many times longer than usual one side may be
LEARN_FROM = 50_000  # pairs are enough to know what each side's language looks like
EXAMPLES = 5  # line numbers kept for each kind

KINDS = {
    "empty": "both sides are empty",
    "one-sided": "one side is empty, the other is not",
    "duplicate": "the same pair stood earlier",
    "identical": "source and target are the same text",
    "length-ratio": f"one side is over {RATIO:g} times longer than is usual here",
    "overlong": f"a side has more than {LONGEST:,} characters",
    "control": "control characters: NUL, escapes, a stray byte order mark",
    "line-break": "characters that others take for the end of a line: \\r, \\v, \\f, U+0085, U+2028, U+2029",
    "swapped": "each side looks like the other side's language",
    "leaked": "the source is also in the test set",
}
REPAIRED = {"control", "line-break"}  # replaced by a space; "identical" is kept: names and numbers are alike
DROPPED = set(KINDS) - REPAIRED - {"identical"}


@dataclass
class Finding:
    """One kind of trouble: how often, and in which lines first."""

    kind: str
    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < EXAMPLES:
            self.lines.append(line)


@dataclass
class Diagnosis:
    """What was found in a corpus, and what is left of it after mending."""

    pairs: int
    kept: int
    findings: dict[str, Finding]
    """By kind; only what was found."""


def repaired(pair: Pair) -> Pair:
    """Control characters and foreign line ends become spaces, and spaces at the ends go."""
    source, target = (LINE_BREAKS.sub(" ", CONTROL.sub(" ", text)).strip() for text in pair[1:])
    return Pair(pair.line, source, target)


def diagnose(
    corpus: TwoFiles | OneFile, test: Corpus | None = None, fix: Path | None = None, watch: Watch = unwatched
) -> Diagnosis:
    """Examine every pair; with `fix`, write what is left of them to a new directory."""
    if fix is not None:
        refuse_existing(fix)  # before the work, not after it
    pairs = corpus.check()
    if test is not None:
        test.check()
    judge = Judge(corpus, test, watch)
    findings: dict[str, Finding] = {}
    kept = 0

    def clean() -> Iterator[Pair]:
        nonlocal kept
        for pair in watch(corpus, "examining"):
            mended = repaired(pair)
            kinds = judge.kinds(pair, mended)
            for kind in kinds:
                findings.setdefault(kind, Finding(kind)).add(pair.line)
            if not DROPPED.intersection(kinds):
                kept += 1
                yield mended

    if fix is None:
        for _ in clean():
            pass
    else:
        with building(fix) as directory:
            _write(clean(), corpus, directory)
    return Diagnosis(pairs, kept, {kind: findings[kind] for kind in KINDS if kind in findings})


class Judge:
    """Knows what is usual in a corpus, and so what is not."""

    def __init__(self, corpus: Corpus, test: Corpus | None, watch: Watch) -> None:
        triples: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._test_sources = set() if test is None else {_key(repaired(pair).source) for pair in test}
        hashes, ratios = array("Q"), 0.0
        for pair in map(repaired, watch(corpus, "learning what is usual")):
            hashes.append(_hash(pair.source, pair.target))
            ratios += _log_ratio(pair)
            if pair.line <= LEARN_FROM:
                triples[0].update(_triples(pair.source))
                triples[1].update(_triples(pair.target))
        self._usual_ratio = ratios / len(hashes)
        self._leaning = Leaning(*triples)
        self._first = _first_of_its_kind(np.frombuffer(hashes, dtype=np.uint64))

    def kinds(self, pair: Pair, mended: Pair) -> list[str]:
        """Every kind of trouble with this pair, as it stands in the file and `repaired`."""
        text = pair.source + pair.target
        _, source, target = mended
        if not source or not target:
            return ["one-sided" if source or target else "empty"]
        tests = {
            "duplicate": not self._first[pair.line - 1],
            "identical": source == target,
            "length-ratio": abs(_log_ratio(mended) - self._usual_ratio) > math.log(RATIO),
            "overlong": max(len(source), len(target)) > LONGEST,
            "control": CONTROL.search(text) is not None,
            "line-break": LINE_BREAKS.search(text) is not None,
            "swapped": self._leaning.swapped(source, target),
            "leaked": _key(source) in self._test_sources,
        }
        return [kind for kind, found in tests.items() if found]


class Leaning:
    """To which side's language a text leans, by its letter triples."""

    def __init__(self, source: Counter[str], target: Counter[str]) -> None:
        sizes = [side.total() + len(side) + 1 for side in (source, target)]
        self._unseen = math.log(sizes[0] / sizes[1])
        self._lean = {
            triple: self._unseen + math.log((target[triple] + 1) / (source[triple] + 1))
            for triple in source.keys() | target.keys()
        }

    def of(self, text: str) -> float:
        """log p(text as target) - log p(text as source), each triple taken alone."""
        return sum(self._lean.get(triple, self._unseen) for triple in _triples(text))

    def swapped(self, source: str, target: str) -> bool:
        """Whether the pair is far likelier the other way round: by more than half a nat for each letter."""
        letters = len(source) + len(target)
        return letters >= 16 and self.of(source) - self.of(target) > letters / 2


def _triples(text: str) -> list[str]:
    padded = f" {text[:LONGEST].casefold()} "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]


def _log_ratio(pair: Pair) -> float:
    return math.log((len(pair.target) + 10) / (len(pair.source) + 10))  # the 10 calms short sentences


def _key(text: str) -> int:
    """Equal for texts that differ only in case and spaces."""
    return _hash(" ".join(text.casefold().split()))


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _first_of_its_kind(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    first = np.zeros(len(hashes), dtype=np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    return first


def _write(pairs: Iterator[Pair], corpus: TwoFiles | OneFile, directory: Path) -> None:
    """In the format that the corpus came in, under the same names, unpacked."""
    with ExitStack() as stack:
        files = [
            stack.enter_context((directory / path.name.removesuffix(".gz")).open("w", encoding="utf-8", newline="\n"))
            for path in corpus.files
        ]
        for pair in pairs:
            for file, line in zip(files, corpus.written(pair), strict=True):
                file.write(line + "\n")
