"""Words to pieces by likelihood: of all ways to cut a word, the one whose scores add up to most (Viterbi)."""

import functools
import math
from collections.abc import Collection, Mapping

from glassformer.errors import DataError

PENALTY = 10.0
"""What a letter that no piece has costs, below the least likely piece."""


class Unigram:
    """Pieces and their scores. Letters that none has become one unknown piece, or their bytes."""

    def __init__(
        self, scores: Mapping[str, float], unknown: str | None, by_bytes: bool, never: Collection[str] = ()
    ) -> None:
        """`never`: pieces that no text is cut into."""
        if not scores or not all(math.isfinite(score) for score in scores.values()):
            raise DataError("its model has no pieces, or one with a score that is no number.")
        self._scores, self._unknown, self._by_bytes, self._never = scores, unknown, by_bytes, frozenset(never)
        self._least = min(scores.values()) - PENALTY
        self._longest: dict[str, int] = {}  # of the pieces that begin with a letter
        for piece in scores:
            if piece and len(piece) > self._longest.get(piece[0], 0):
                self._longest[piece[0]] = len(piece)
        self.cut = functools.lru_cache(maxsize=65536)(self._cut)

    def _cut(self, word: str) -> tuple[str, ...]:
        found: list[str] = []
        for piece, known in self._fused(self._best(word)):
            spelled = [f"<0x{byte:02X}>" for byte in piece.encode()]
            if known:
                found.append(piece)
            elif self._by_bytes and all(byte in self._scores for byte in spelled):
                found += spelled
            elif self._unknown is not None:
                found.append(self._unknown)
        return tuple(found)

    def _best(self, word: str) -> list[tuple[str, bool]]:
        """The pieces of the best way, from the last to the first; whether each is one."""
        sums: list[float] = [0.0, *[-math.inf] * len(word)]
        starts = [-1] * (len(word) + 1)
        known = [False] * (len(word) + 1)
        for start, letter in enumerate(word):
            alone = False
            for end in range(start + 1, min(start + self._longest.get(letter, 0), len(word)) + 1):
                piece = word[start:end]
                score = self._scores.get(piece)
                if score is None or piece in self._never:
                    continue
                alone = alone or end == start + 1
                if starts[end] < 0 or sums[start] + score > sums[end]:
                    sums[end], starts[end], known[end] = sums[start] + score, start, piece != self._unknown
            end = start + 1
            if not alone and (starts[end] < 0 or sums[start] + self._least > sums[end]):
                sums[end], starts[end], known[end] = sums[start] + self._least, start, False
        pieces, end = [], len(word)
        while end > 0:
            pieces.append((word[starts[end] : end], known[end]))
            end = starts[end]
        return pieces

    def _fused(self, backwards: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        """From the first to the last; unknown neighbours are one."""
        found: list[tuple[str, bool]] = []
        for piece, known in reversed(backwards):
            if found and not known and not found[-1][1]:
                found[-1] = (found[-1][0] + piece, False)
            else:
                found.append((piece, known))
        return found
