"""Word links, the alignment error rate (Och and Ney, 2003), and the Pharaoh format.

Pharaoh format: one line per sentence pair, `0-0 1-2` for source word 0 with target word 0 and 1 with 2; `3?4` or `3p4`
for a link that is possible but not sure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glassformer.errors import DataError

Pairs = frozenset[tuple[int, int]]
LINK = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})")


@dataclass(frozen=True)
class Links:
    """Reference word links of one sentence pair, drawn by people or learned: word indices (source, target)."""

    sure: Pairs
    possible: Pairs
    """Possible links, including the sure ones."""


@dataclass(frozen=True)
class AlignmentScore:
    """Counts over many sentence pairs: predicted links (A), sure links (S), |A ∩ S| and |A ∩ P| (P: possible links)."""

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @property
    def aer(self) -> float:
        """Alignment error rate 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|): 0 is best; 1 if no predicted link is right."""
        all_links = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / all_links if all_links else 0.0

    @property
    def precision(self) -> float:
        """Precision |A ∩ P| / |A|: the share of predicted links that are possible."""
        return self.found_possible / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Recall |A ∩ S| / |S|: the share of sure links that are predicted."""
        return self.found_sure / self.sure if self.sure else 1.0


def alignment_score(found: Iterable[Iterable[tuple[int, int]]], gold: Iterable[Links]) -> AlignmentScore:
    """Score predicted links, one set per sentence pair, against reference links."""
    totals = [0, 0, 0, 0]
    for links, reference in zip(map(frozenset, found), gold, strict=True):
        counts = (len(links), len(reference.sure), len(links & reference.sure), len(links & reference.possible))
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return AlignmentScore(*totals)


def read_links(line: str, where: str) -> Links:
    """Parse one line of the Pharaoh format: the word links of one sentence pair, such as `0-0 1?2`."""
    sure, possible = set(), set()
    for entry in line.split():
        link = LINK.fullmatch(entry)
        if link is None:
            raise DataError(
                f"{where}: {entry[:50]!r} is not a link. Expected `0-1` for a sure link, or `0?1` or `0p1` for a "
                "possible one."
            )
        pair = int(link[1]), int(link[3])
        possible.add(pair)
        if link[2] == "-":
            sure.add(pair)
    return Links(frozenset(sure), frozenset(possible))


def written(links: Iterable[Sequence[int]]) -> str:
    """Word links as one line of the Pharaoh format."""
    return " ".join(f"{source}-{target}" for source, target in links)
