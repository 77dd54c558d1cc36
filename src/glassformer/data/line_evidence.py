"""Evidence that two lines translate each other, learned from the corpus while it is read: no dictionary, no torch.

Each source line is compared with the target lines around it, by three measures: lengths (Gale and Church, 1993), words
that occur together in this corpus more often than by chance, and words, numbers and signs found on both sides. The
weights of the measures are those of a conditional logit model that picks each line's partner among its neighbours, so
the evidence is a log probability whatever the corpus: near-duplicates and sorted lines give little, names give much.
"""

import math
import re
import zlib
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_SHIFT = 15
SHIFTS = 2 * MAX_SHIFT + 1  # candidates per source line; index MAX_SHIFT is the target line of the same number

WORD = re.compile(r"[\u0e00-\u0eff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]|\w+|[^\w\s]")
"""A word, a sign, or a character of a script that is written without spaces."""
STEM = 6  # characters of a word that are compared: inflected forms are mostly one word
MAX_CACHED_WORDS = 2000
BUCKETS = 128  # words are hashed; a matrix of BUCKETS x BUCKETS holds the associations
FREQUENCIES = 2**14
SHARED = 0.3  # how often a rare word of a line is also in its translation, about
MEMORY = 0.97  # per block: corpora are often several, one after the other
NOISE = 0.1  # share of lines that may say anything: bounds the evidence of one line
MIN_ASSOCIATION = 3.0  # standard errors

Floats = NDArray[np.float64]


class Line(NamedTuple):
    """What is compared of a line."""

    log_length: float
    words: list[int]


class LineReader(dict[str, int]):
    """Makes a `Line` of a text. It is a cache of the hashes of words, of bounded size."""

    def __missing__(self, word: str) -> int:
        if len(self) > MAX_CACHED_WORDS:
            self.clear()
        self[word] = number = zlib.crc32(word[:STEM].encode())
        return number

    def line(self, text: str) -> Line:
        text = text[:1000]
        return Line(math.log(len(text) + 5), list({self[word] for word in WORD.findall(text.casefold())}))


class Block:
    """Consecutive lines of one side as arrays; None is a line before the beginning or after the end of the file."""

    def __init__(self, lines: Sequence[Line | None]) -> None:
        self.inside = np.array([line is not None for line in lines])
        self.log_lengths = np.array([0.0 if line is None else line.log_length for line in lines])
        counts = [0 if line is None else len(line.words) for line in lines]
        self.rows = np.repeat(np.arange(len(lines)), counts)
        self.words = np.fromiter(chain.from_iterable(line.words for line in lines if line), np.int64, sum(counts))
        self.bags = np.zeros((len(lines), BUCKETS), np.float32)
        self.bags[self.rows, self.words % BUCKETS] = 1

    def __len__(self) -> int:
        return len(self.inside)


class LineEvidence:
    """The learned part of the evidence. A target block begins MAX_SHIFT lines before its source block, ends as late."""

    def __init__(self) -> None:
        self._weights = np.array([0.7, 0.5, 0.5])
        self._information = np.diag([20.0, 50.0, 20.0])  # of a prior: these weights are guesses
        self._lengths = _Lengths()
        self._associations = _Associations()
        self._frequencies = np.zeros(FREQUENCIES, np.float32)
        self._lines = 0

    def measures(self, source: Block, target: Block) -> Floats:
        """The three measures of every source line with each of its candidates: lines x SHIFTS x 3."""
        parts = self._lengths(source, target), self._associations(source, target), self._shared(source, target)
        return np.stack(parts, axis=2)

    def gains(self, measures: Floats, inside: NDArray[np.bool_]) -> Floats:
        """log p(candidate is the partner) / p(by chance); 0 for candidates outside the file."""
        mixed = (1 - NOISE) * self._probabilities(measures, inside) + NOISE / SHIFTS
        return np.where(inside, np.log(mixed * SHIFTS), 0)

    def count(self, block: Block) -> None:
        """Count the words of new target lines."""
        np.add.at(self._frequencies, block.words % FREQUENCIES, 1)
        self._lines += len(block)

    def learn(self, source: Block, target: Block, measures: Floats, shift: int) -> None:
        """Learn from a block in which this shift, as an index, is believed to be right."""
        there = target.inside[shift : shift + len(source)]
        rows, partners = np.flatnonzero(there), np.flatnonzero(there) + shift
        self._fit(measures[rows], around(target.inside)[rows], shift)
        self._lengths.learn(source.log_lengths[rows], target.log_lengths[partners])
        self._associations.learn(source.bags[rows], target.bags[partners])

    def _fit(self, measures: Floats, inside: NDArray[np.bool_], shift: int) -> None:
        """One Newton step of the conditional logit model, with the information of all blocks so far."""
        probabilities = self._probabilities(measures, inside)
        means = np.einsum("ls,lsm->lm", probabilities, measures)
        deviations = measures - means[:, None]
        self._information = MEMORY * self._information + np.einsum(
            "ls,lsm,lsk->mk", probabilities, deviations, deviations
        )
        gradient = deviations[:, shift].sum(axis=0)
        step = np.linalg.solve(self._information, gradient)
        self._weights = np.clip(self._weights + step, 0, [2, 10, 2])

    def _probabilities(self, measures: Floats, inside: NDArray[np.bool_]) -> Floats:
        """Softmax over the candidates inside the file; at least one of each line is."""
        logits = np.where(inside, measures @ self._weights, -np.inf)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: Floats = odds / odds.sum(axis=1, keepdims=True)
        return probabilities

    def _shared(self, source: Block, target: Block) -> Floats:
        """Sum over the words that are on both sides of log p(word | partner has it) / p(word), where it is positive."""
        order = np.argsort(target.words, kind="stable")
        words, rows = target.words[order], target.rows[order]
        gains = np.log(SHARED * (self._lines + 5) / (self._frequencies[source.words % FREQUENCIES] + 1))
        first, last = np.searchsorted(words, source.words), np.searchsorted(words, source.words, side="right")
        counts = np.where(gains > 0, last - first, 0)
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
        shifts = rows[places] - np.repeat(source.rows, counts)
        near = (shifts >= 0) & (shifts < SHIFTS)
        cells = (np.repeat(source.rows, counts) * SHIFTS + shifts)[near]
        sums = np.bincount(cells, np.repeat(gains, counts)[near], len(source) * SHIFTS)
        shared: Floats = sums.reshape(len(source), SHIFTS).astype(np.float64)  # without words, they are integers
        return shared


class _Lengths:
    """log p(length of the one | length of the other) / p(length), with jointly normal logarithms of lengths."""

    def __init__(self) -> None:
        self._sums = np.zeros(6)

    def __call__(self, source: Block, target: Block) -> Floats:
        x, y = source.log_lengths, target.log_lengths
        mean_x, mean_y, deviation_x, deviation_y, r = self._moments(x, y[target.inside])
        x = np.clip((x - mean_x) / deviation_x, -3, 3)[:, None]
        y = around(np.clip((y - mean_y) / deviation_y, -3, 3))
        ratio: Floats = (2 * r * x * y - r * r * (x * x + y * y)) / (2 * (1 - r * r))
        return ratio

    def _moments(self, x: Floats, y: Floats) -> tuple[float, float, float, float, float]:
        """Means, standard deviations and correlation."""
        count, *sums = self._sums
        if count < 50:
            return x.mean(), y.mean(), x.std() + 0.03, y.std() + 0.03, 0.7
        mean_x, mean_y, xx, yy, xy = np.array(sums) / count
        deviation_x, deviation_y = (max(s - m * m, 1e-3) ** 0.5 for s, m in ((xx, mean_x), (yy, mean_y)))
        r = (xy - mean_x * mean_y) / (deviation_x * deviation_y)
        return mean_x, mean_y, deviation_x, deviation_y, min(max(r, 0.0), 0.98)

    def learn(self, x: Floats, y: Floats) -> None:
        self._sums += [len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y]


class _Associations:
    """Sum of the pointwise mutual information of the words of two lines, where it is significant."""

    def __init__(self) -> None:
        self._together = np.zeros((BUCKETS, BUCKETS), np.float32)
        self._source, self._target = np.zeros(BUCKETS, np.float32), np.zeros(BUCKETS, np.float32)
        self._information = np.zeros((BUCKETS, BUCKETS), np.float32)
        self._pairs, self._next = 0, 100

    def __call__(self, source: Block, target: Block) -> Floats:
        pairs = max(self._pairs, 1)
        bags = source.bags - self._source / pairs
        explained = np.concatenate([bags[piece] @ self._information for piece in _pieces(len(bags))])
        sums = np.einsum("lb,lbs->ls", explained, around(target.bags - self._target / pairs))
        words = np.maximum(source.bags.sum(axis=1), 1)[:, None] * around(np.maximum(target.bags.sum(axis=1), 1))
        scaled: Floats = sums / np.sqrt(words)
        return scaled

    def learn(self, source: NDArray[np.float32], target: NDArray[np.float32]) -> None:
        for piece in _pieces(len(source)):
            self._together += source[piece].T @ target[piece]
        self._source += source.sum(axis=0)
        self._target += target.sum(axis=0)
        self._pairs += len(source)
        if self._pairs >= self._next:
            self._next = self._pairs * 3 // 2
            chance = np.outer(self._source, self._target) / np.float32(self._pairs)
            significant = self._together - chance > MIN_ASSOCIATION * np.sqrt(chance + 0.5)
            self._information = np.where(significant, np.log((self._together + 2) / (chance + 2)), np.float32(0))


def around(values: NDArray[Any]) -> NDArray[Any]:
    """The values of each source line's candidates, from those of the target block; SHIFTS is the last dimension."""
    return np.lib.stride_tricks.sliding_window_view(values, SHIFTS, axis=0)


def _pieces(rows: int) -> list[slice]:
    """So few rows that BLAS starts no threads: on a busy machine they wait 50 times longer than they work."""
    return [slice(row, row + 8) for row in range(0, rows, 8)]
