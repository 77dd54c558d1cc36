"""Words to pieces by merging: of all neighbours the pair that was learned first becomes one, until none is left.

The merges of a large vocabulary are half a million: they are held as numbers in two arrays, and looked up by halving.
"""

import functools
import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping

import numpy as np

from glassformer.errors import DataError


class Merges:
    """The rank of each pair: how early it was learned. Of two that are alike, the later counts."""

    def __init__(self, pairs: "array[int]") -> None:
        keys = np.frombuffer(pairs, dtype=np.uint64) if pairs else np.zeros(0, np.uint64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._ranks = array("Q", keys[order].tobytes()), array("Q", order.astype(np.uint64).tobytes())

    def rank(self, one: int, other: int) -> int | None:
        key = one << 32 | other
        place = bisect_right(self._keys, key) - 1
        return self._ranks[place] if place >= 0 and self._keys[place] == key else None


class BPE:
    """Letters merged to pieces. Letters that none has become their bytes, an unknown piece, or nothing."""

    def __init__(
        self, numbers: Mapping[str, int], merges: Merges, unknown: str | None, fused: bool, by_bytes: bool, whole: bool
    ) -> None:
        """`fused`: unknown neighbours are one. `whole`: a word that is a piece is not cut."""
        if not numbers:
            raise DataError("its model has no pieces.")
        if unknown is not None and unknown not in numbers:
            raise DataError(f"its model has no piece {unknown!r:.100}, which stands for all others.")
        self._numbers, self._merges, self._unknown = numbers, merges, unknown
        self._fused, self._by_bytes, self._whole = fused, by_bytes, whole
        self.cut = functools.lru_cache(maxsize=65536)(self._cut)

    def _cut(self, word: str) -> tuple[str, ...]:
        if self._whole and word in self._numbers:
            return (word,)
        return self._merged([*self._letters(word)])

    def _letters(self, word: str) -> Iterator[str]:
        waiting = False  # an unknown piece that may grow
        for letter in word:
            if letter in self._numbers:
                if waiting and self._unknown is not None:
                    yield self._unknown
                waiting = False
                yield letter
                continue
            spelled = [f"<0x{byte:02X}>" for byte in letter.encode()]
            if self._by_bytes and all(byte in self._numbers for byte in spelled):
                yield from spelled
                continue
            if waiting and not self._fused and self._unknown is not None:
                yield self._unknown
            waiting = True
        if waiting and self._unknown is not None:
            yield self._unknown

    def _merged(self, pieces: list[str]) -> tuple[str, ...]:
        after = [*range(1, len(pieces)), -1]  # the place of each one's neighbour; -1: it has none
        before = [*range(-1, len(pieces) - 1)]
        queue: list[tuple[int, int, str]] = []

        def offer(place: int) -> None:
            one, other = pieces[place], pieces[after[place]]
            rank = self._merges.rank(self._numbers[one], self._numbers[other])
            if rank is not None:
                heapq.heappush(queue, (rank, place, one + other))

        for place in range(len(pieces) - 1):
            offer(place)
        while queue:
            _, place, both = heapq.heappop(queue)
            gone = after[place]
            if not pieces[place] or gone < 0 or pieces[place] + pieces[gone] != both:
                continue  # it has changed since
            pieces[place], pieces[gone] = both, ""
            after[place] = after[gone]
            if after[place] >= 0:
                before[after[place]] = place
                offer(place)
            if before[place] >= 0:
                offer(before[place])
        return tuple(piece for piece in pieces if piece)
