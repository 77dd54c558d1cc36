"""Links between words, and how far two sets of them are apart: the alignment error rate (Och and Ney, 2003).

Pharaoh's format: a line a pair, `0-0 1-2` for source word 0 with target word 0 and 1 with 2; `3?4` or `3p4` for a link
that is possible and no more.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glassformer.errors import DataError

Pairs = frozenset[tuple[int, int]]
LINK = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})")


@dataclass(frozen=True)
class Links:
    """What people, or whoever stands in for them, say of one pair: numbers of words, (source, target)."""

    sure: Pairs
    possible: Pairs
    """The sure ones too."""


@dataclass(frozen=True)
class AlignmentScore:
    """Counts over many pairs: of links found (A), sure (S) and possible (P) ones, and what they share."""

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @property
    def aer(self) -> float:
        """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|): 0 when all is found and nothing else, 1 when nothing is."""
        all_links = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / all_links if all_links else 0.0

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|."""
        return self.found_possible / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|."""
        return self.found_sure / self.sure if self.sure else 1.0


def alignment_score(found: Iterable[Iterable[tuple[int, int]]], gold: Iterable[Links]) -> AlignmentScore:
    """How many of the links found, pair by pair, are among those given."""
    counts = [0, 0, 0, 0]
    for own, given in zip(found, gold, strict=True):
        links = frozenset(own)
        ours = (len(links), len(given.sure), len(links & given.sure), len(links & given.possible))
        counts = [count + more for count, more in zip(counts, ours, strict=True)]
    return AlignmentScore(*counts)


def read_links(line: str, where: str) -> Links:
    """The links in a line of Pharaoh's format."""
    sure, possible = set(), set()
    for entry in line.split():
        link = LINK.fullmatch(entry)
        if link is None:
            raise DataError(f"{where}: {entry[:50]!r} is no link; `0-1` is a sure one, `0?1` or `0p1` a possible one.")
        pair = int(link[1]), int(link[3])
        possible.add(pair)
        if link[2] == "-":
            sure.add(pair)
    return Links(frozenset(sure), frozenset(possible))


def written(links: Iterable[Sequence[int]]) -> str:
    """Links as a line of Pharaoh's format."""
    return " ".join(f"{source}-{target}" for source, target in links)
