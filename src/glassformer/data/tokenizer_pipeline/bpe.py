"""BPE model: merges adjacent pairs of pieces, from characters up, always the pair that was learned first.

A large vocabulary has half a million merges: they are stored as integers in two sorted arrays, with binary search.
"""

import functools
import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping

import numpy as np

from glassformer.errors import DataError


class Merges:
    """BPE merges: the rank of each pair of pieces, in the order of learning. The last of duplicates counts."""

    def __init__(self, pairs: "array[int]") -> None:
        keys = np.frombuffer(pairs, dtype=np.uint64) if pairs else np.zeros(0, np.uint64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._ranks = array("Q", keys[order].tobytes()), array("Q", order.astype(np.uint64).tobytes())

    def rank(self, left: int, right: int) -> int | None:
        key = left << 32 | right
        index = bisect_right(self._keys, key) - 1
        return self._ranks[index] if index >= 0 and self._keys[index] == key else None


class BPE:
    """BPE model of a `tokenizer.json`. Characters outside the vocabulary become unknown, or nothing."""

    def __init__(self, ids: Mapping[str, int], merges: Merges, unknown: str | None, fuse_unknown: bool) -> None:
        """`fuse_unknown`: adjacent unknown tokens become one."""
        if not ids:
            raise DataError("the model has no pieces.")
        if unknown is not None and unknown not in ids:
            raise DataError(f"the model has no piece {unknown!r:.100}, its unknown token.")
        self._ids, self._merges, self._unknown, self._fuse_unknown = ids, merges, unknown, fuse_unknown
        self.tokenize = functools.lru_cache(maxsize=65536)(self._tokenize)

    def _symbols(self, word: str) -> Iterator[str]:
        """The symbols that merging starts from: a word's characters, or the unknown token."""
        after_unknown = False
        for character in word:
            known = character in self._ids
            if known:
                yield character
            elif self._unknown is not None and not (after_unknown and self._fuse_unknown):
                yield self._unknown
            after_unknown = not known

    def _tokenize(self, word: str) -> tuple[str, ...]:
        pieces = [*self._symbols(word)]
        following = [*range(1, len(pieces)), -1]  # the index of each piece's right neighbour; -1 for none
        preceding = [*range(-1, len(pieces) - 1)]
        queue: list[tuple[int, int, str]] = []

        def push(index: int) -> None:
            left, right = pieces[index], pieces[following[index]]
            rank = self._merges.rank(self._ids[left], self._ids[right])
            if rank is not None:
                heapq.heappush(queue, (rank, index, left + right))

        for index in range(len(pieces) - 1):
            push(index)
        while queue:
            _, index, merged = heapq.heappop(queue)
            absorbed = following[index]
            if not pieces[index] or absorbed < 0 or pieces[index] + pieces[absorbed] != merged:
                continue  # outdated: one of the two has been merged since
            pieces[index], pieces[absorbed] = merged, ""
            following[index] = following[absorbed]
            if following[index] >= 0:
                preceding[following[index]] = index
                push(index)
            if preceding[index] >= 0:
                push(preceding[index])
        return tuple(piece for piece in pieces if piece)
