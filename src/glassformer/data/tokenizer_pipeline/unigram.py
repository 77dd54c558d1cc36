"""Unigram model: splits a word into the pieces with the highest sum of scores (Viterbi)."""

import functools
import math
from collections.abc import Collection, Mapping
from itertools import groupby
from operator import itemgetter

from glassformer.errors import DataError

UNKNOWN_PENALTY = 10.0
"""Difference between the score of the least likely piece and that of an unknown character."""


class Unigram:
    """Unigram model: pieces and their scores. Adjacent unknown characters become one unknown token, or byte tokens."""

    def __init__(
        self, scores: Mapping[str, float], unknown: str | None, byte_fallback: bool, excluded: Collection[str] = ()
    ) -> None:
        """`excluded`: pieces of the vocabulary that no text is split into."""
        if not scores or not all(math.isfinite(score) for score in scores.values()):
            raise DataError("the model has no pieces, or a piece whose score is not a finite number.")
        self._scores, self._unknown, self._byte_fallback = scores, unknown, byte_fallback
        self._excluded = frozenset(excluded)
        self._unknown_score = min(scores.values()) - UNKNOWN_PENALTY
        self._max_length: dict[str, int] = {}  # of the pieces that begin with a character
        for piece in scores:
            if piece and len(piece) > self._max_length.get(piece[0], 0):
                self._max_length[piece[0]] = len(piece)
        self.tokenize = functools.lru_cache(maxsize=65536)(self._tokenize)

    def _tokenize(self, word: str) -> tuple[str, ...]:
        pieces: list[str] = []
        for known, group in groupby(reversed(self._viterbi(word)), itemgetter(1)):
            run = [piece for piece, _ in group]
            byte_pieces = [f"<0x{byte:02X}>" for byte in "".join(run).encode()]
            if known:
                pieces += run
            elif self._byte_fallback and all(byte_piece in self._scores for byte_piece in byte_pieces):
                pieces += byte_pieces
            elif self._unknown is not None:
                pieces.append(self._unknown)
        return tuple(pieces)

    def _viterbi(self, word: str) -> list[tuple[str, bool]]:
        """The best segmentation of a word, from last piece to first; each with whether it is in the vocabulary."""
        sums: list[float] = [0.0, *[-math.inf] * len(word)]
        starts = [-1] * (len(word) + 1)
        known = [False] * (len(word) + 1)
        for start, character in enumerate(word):
            has_single = False
            for end in range(start + 1, min(start + self._max_length.get(character, 0), len(word)) + 1):
                piece = word[start:end]
                score = self._scores.get(piece)
                if score is None or piece in self._excluded:
                    continue
                has_single = has_single or end == start + 1
                if starts[end] < 0 or sums[start] + score > sums[end]:
                    sums[end], starts[end], known[end] = sums[start] + score, start, piece != self._unknown
            end = start + 1
            if not has_single and (starts[end] < 0 or sums[start] + self._unknown_score > sums[end]):
                sums[end], starts[end], known[end] = sums[start] + self._unknown_score, start, False
        pieces, end = [], len(word)
        while end > 0:
            pieces.append((word[starts[end] : end], known[end]))
            end = starts[end]
        return pieces
