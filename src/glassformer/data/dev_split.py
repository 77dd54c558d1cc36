"""Development set split off a corpus that has none: deterministic, by a hash of the source sentence.

No source sentence is in both the development and the training set.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.corpus import OneFile, Pair, TwoFiles


@dataclass(frozen=True)
class DevSplit:
    """A part of a corpus: about one in `one_in` source sentences, with all its occurrences; with `rest`, all others."""

    corpus: TwoFiles | OneFile
    one_in: int
    rest: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        return self.corpus.files

    @property
    def selection(self) -> str:
        """Description of which pairs of the files are selected; part of checksums."""
        return f"{'all but ' if self.rest else ''}one in {self.one_in}"

    @property
    def complement(self) -> "DevSplit":
        """The other part of the corpus: the pairs that are not selected here."""
        return replace(self, rest=not self.rest)

    def check(self) -> int:
        """The number of pairs in the files, selected or not."""
        return self.corpus.check()

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.corpus if self._is_held_out(pair) != self.rest)

    def __str__(self) -> str:
        return f"{self.selection} of {self.corpus}"

    def _is_held_out(self, pair: Pair) -> bool:
        digest = hashlib.sha256(pair.source.strip().encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.one_in == 0
