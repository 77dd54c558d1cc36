"""A development set split off a corpus that came without one: by what the source says, so that no sentence is on both
sides, and the same every time.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.corpus import OneFile, Pair, TwoFiles


@dataclass(frozen=True)
class DevSplit:
    """About one source sentence in `one_in`, with all its occurrences; or, with `rest`, all the others."""

    corpus: TwoFiles | OneFile
    one_in: int
    rest: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        return self.corpus.files

    @property
    def selection(self) -> str:
        """What of the files it is, for checksums."""
        return f"{'all but ' if self.rest else ''}one in {self.one_in}"

    @property
    def others(self) -> "DevSplit":
        return replace(self, rest=not self.rest)

    def check(self) -> int:
        """The number of pairs in the files."""
        return self.corpus.check()

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.corpus if self._is_held_out(pair) != self.rest)

    def __str__(self) -> str:
        return f"{self.selection} of {self.corpus}"

    def _is_held_out(self, pair: Pair) -> bool:
        digest = hashlib.sha256(pair.source.strip().encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.one_in == 0
