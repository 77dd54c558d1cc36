"""Links between words learned from the sentences themselves, where nobody has drawn any: a silver standard.

IBM model 1 with a prior for the diagonal (fast_align: Dyer, Chahuneau and Smith, 2013), in both directions. What both
find is sure, what one finds is possible. Knows nothing of our models: that is what makes it a measure for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError
from glassformer.inspection.alignment.alignment_error_rate import Links

ENOUGH = 1000
"""Pairs below which the links learned are rough."""
ROUNDS = 5
NULL = 0.08
"""How likely a word is to have no counterpart, before anything is known; fast_align's."""
SLOPE = 4.0
"""How fast the prior falls away from the diagonal; where fast_align begins."""
PRIOR = 0.01
"""Added to every count: rare words do not become sure of themselves (Riley and Gildea, 2012)."""

Text = Sequence[str]


def learned_links(pairs: Sequence[tuple[Text, Text]]) -> list[Links]:
    """Links for each pair of sentences, given as words; the same pairs give the same links."""
    lowered = [([word.lower() for word in source], [word.lower() for word in target]) for source, target in pairs]
    forth = one_way(lowered)
    back = one_way([(target, source) for source, target in lowered])
    both = []
    for there, again in zip(forth, back, strict=True):
        turned = {(source, target) for target, source in again}
        both.append(Links(frozenset(there & turned), frozenset(there | turned)))
    if not any(links.sure for links in both):
        raise InputError("No two words of these pairs could be linked: give more pairs, or gold links.")
    return both


@dataclass(frozen=True)
class _Cells:
    """Every source word of a pair beside every target word of it, and beside nothing, all pairs in a row."""

    pair: NDArray[np.int64]
    source: NDArray[np.int64]
    """Place in the sentence; -1 is nothing."""
    target: NDArray[np.int64]
    column: NDArray[np.int64]
    """Number of the target word among all: the cells that share one are its alternatives."""
    kind: NDArray[np.int64]
    """Number of the two words, as types."""
    given: NDArray[np.int64]
    """The source word of each kind, as a type."""
    prior: NDArray[np.float64]


def one_way(pairs: Sequence[tuple[Text, Text]]) -> list[set[tuple[int, int]]]:
    """For each target word the source word that explains it best, or none: (source, target)."""
    found: list[set[tuple[int, int]]] = [set() for _ in pairs]
    cells = _cells(pairs)
    if not len(cells.pair):
        return found
    best = _best(cells, _posterior(cells))
    linked = best[cells.source[best] >= 0]
    for pair, source, target in zip(
        cells.pair[linked].tolist(), cells.source[linked].tolist(), cells.target[linked].tolist(), strict=True
    ):
        found[pair].add((source, target))
    return found


def _posterior(cells: _Cells) -> NDArray[np.float64]:
    """P(source place | target word) of each cell, after expectation and maximisation have taken turns."""
    kinds, columns, givens = len(cells.given), int(cells.column[-1]) + 1, int(cells.given.max()) + 1
    table = np.ones(kinds)  # P(target word | source word), without a scale at first: it is divided out
    for number in range(ROUNDS + 1):
        shares = cells.prior * table[cells.kind]
        shares /= np.bincount(cells.column, shares, columns)[cells.column]
        if number < ROUNDS:
            counts = np.bincount(cells.kind, shares, kinds) + PRIOR
            table = counts / np.bincount(cells.given, counts, givens)[cells.given]
    return shares


def _best(cells: _Cells, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of each column the cell with the largest share, of equals the first."""
    order = np.lexsort((np.arange(len(shares)), -shares, cells.column))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(cells.column[order]) > 0
    return order[first]


def _cells(pairs: Sequence[tuple[Text, Text]]) -> _Cells:
    sources, targets = _numbered([one for one, _ in pairs]), _numbered([other for _, other in pairs])
    parts: list[tuple[NDArray[np.int64], ...]] = []
    priors: list[NDArray[np.float64]] = []
    columns = 0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        n, m = len(source), len(target)
        if not n or not m:
            continue
        words = np.concatenate(([0], source))  # 0 is nothing
        parts.append(
            (
                np.full(m * (n + 1), number),
                np.tile(np.arange(-1, n), m),
                np.repeat(np.arange(m), n + 1),
                np.repeat(np.arange(columns, columns + m), n + 1),
                np.tile(words, m),
                np.repeat(target, n + 1),
            )
        )
        priors.append(_diagonal(n, m).ravel())
        columns += m
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return _Cells(none, none, none, none, none, none, np.zeros(0))
    pair, place, at, column, given, written = (np.concatenate(own) for own in zip(*parts, strict=True))
    types, kind = np.unique(given * (int(written.max()) + 1) + written, return_inverse=True)
    return _Cells(pair, place, at, column, kind, types // (int(written.max()) + 1), np.concatenate(priors))


def _diagonal(n: int, m: int) -> NDArray[np.float64]:
    """Of each target place, how likely nothing and each source place are before the words are looked at."""
    far = np.abs((np.arange(m)[:, None] + 0.5) / m - (np.arange(n)[None, :] + 0.5) / n)
    near = np.exp(-SLOPE * far)
    near *= (1 - NULL) / near.sum(1, keepdims=True)
    return np.concatenate((np.full((m, 1), NULL), near), axis=1)


def _numbered(texts: Sequence[Text]) -> list[NDArray[np.int64]]:
    """Words as numbers from 1 on, in the order in which they come."""
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers) + 1) for word in text], dtype=np.int64) for text in texts]
