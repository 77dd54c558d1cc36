"""IBM model 1 aligner: word links learned from the sentence pairs themselves, where no gold links exist.

IBM model 1 with a diagonal prior (fast_align: Dyer, Chahuneau and Smith, 2013), in both directions. Links found in both
directions are sure, links found in one are possible. Independent of the translation models, which it serves to measure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError
from glassformer.inspection.alignment.alignment_error_rate import Links

ENOUGH_PAIRS = 1000
"""Number of pairs below which the learned links are rough."""
EM_ITERATIONS = 5
NULL_PROBABILITY = 0.08
"""Prior probability that a word has no counterpart; fast_align's value."""
DIAGONAL_TENSION = 4.0
"""Steepness of the alignment prior away from the diagonal; fast_align's initial value."""
COUNT_SMOOTHING = 0.01
"""Constant added to every count, against overfitting of rare words (Riley and Gildea, 2012)."""

Text = Sequence[str]


def learned_links(pairs: Sequence[tuple[Text, Text]]) -> list[Links]:
    """Learn word links by IBM model 1 for each pair of sentences, given as words. Deterministic."""
    lowered = [([word.lower() for word in source], [word.lower() for word in target]) for source, target in pairs]
    forward = one_way(lowered)
    backward = one_way([(target, source) for source, target in lowered])
    merged = []
    for links, reverse_links in zip(forward, backward, strict=True):
        reversed_back = {(source, target) for target, source in reverse_links}
        merged.append(Links(frozenset(links & reversed_back), frozenset(links | reversed_back)))
    if not any(links.sure for links in merged):
        raise InputError("No words of these pairs could be aligned: give more pairs, or gold links.")
    return merged


@dataclass(frozen=True)
class _Cells:
    """Cells, one per target word and source word (or NULL) of the same sentence pair, as flat arrays over all pairs."""

    pair: NDArray[np.int64]
    """Index of the sentence pair."""
    source: NDArray[np.int64]
    """Index of the source word in its sentence; -1 is NULL."""
    target: NDArray[np.int64]
    """Index of the target word in its sentence."""
    column: NDArray[np.int64]
    """Index of the target word over all pairs: cells with the same column are its alternatives."""
    kind: NDArray[np.int64]
    """Index of the cell's kind: its pair of word types (source, target)."""
    given: NDArray[np.int64]
    """Source word type of each kind (pair of word types)."""
    prior: NDArray[np.float64]


def one_way(pairs: Sequence[tuple[Text, Text]]) -> list[set[tuple[int, int]]]:
    """Align in one direction: each target word to its most probable source word; no link if that is NULL."""
    links: list[set[tuple[int, int]]] = [set() for _ in pairs]
    cells = _cells(pairs)
    if not len(cells.pair):
        return links
    best = _best(cells, _posterior(cells))
    linked = best[cells.source[best] >= 0]
    columns = (array[linked].tolist() for array in (cells.pair, cells.source, cells.target))
    for pair, source, target in zip(*columns, strict=True):
        links[pair].add((source, target))
    return links


def _posterior(cells: _Cells) -> NDArray[np.float64]:
    """P(source position | target word) of each cell, by expectation maximisation."""
    kinds, columns, givens = len(cells.given), int(cells.column[-1]) + 1, int(cells.given.max()) + 1
    table = np.ones(kinds)  # P(target word | source word), unnormalised at first: the scale is divided out
    for iteration in range(EM_ITERATIONS + 1):
        posterior = cells.prior * table[cells.kind]
        posterior /= np.bincount(cells.column, posterior, columns)[cells.column]
        if iteration < EM_ITERATIONS:
            counts = np.bincount(cells.kind, posterior, kinds) + COUNT_SMOOTHING
            table = counts / np.bincount(cells.given, counts, givens)[cells.given]
    return posterior


def _best(cells: _Cells, posterior: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each target word (column), the most probable cell; of ties, the first."""
    order = np.lexsort((np.arange(len(posterior)), -posterior, cells.column))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(cells.column[order]) > 0
    return order[first]


def _cells(pairs: Sequence[tuple[Text, Text]]) -> _Cells:
    sources, targets = _type_ids([source for source, _ in pairs]), _type_ids([target for _, target in pairs])
    parts: list[tuple[NDArray[np.int64], ...]] = []
    priors: list[NDArray[np.float64]] = []
    columns = 0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        n, m = len(source), len(target)
        if not n or not m:
            continue
        by_source = [np.tile(array, m) for array in (np.arange(-1, n), np.concatenate(([0], source)))]  # 0 is NULL
        by_target = [np.repeat(array, n + 1) for array in (np.arange(m), np.arange(columns, columns + m), target)]
        parts.append((np.full(m * (n + 1), number), *by_source, *by_target))
        priors.append(_diagonal_prior(n, m).ravel())
        columns += m
    if not parts:
        empty = np.zeros(0, dtype=np.int64)
        return _Cells(empty, empty, empty, empty, empty, empty, np.zeros(0))
    arrays = map(np.concatenate, zip(*parts, strict=True))
    pair, source_index, source_type, target_index, column, target_type = arrays
    target_types = int(target_type.max()) + 1
    types, kind = np.unique(source_type * target_types + target_type, return_inverse=True)
    return _Cells(pair, source_index, target_index, column, kind, types // target_types, np.concatenate(priors))


def _diagonal_prior(n: int, m: int) -> NDArray[np.float64]:
    """For each target position, the prior probability of NULL and of each source position."""
    distance = np.abs((np.arange(m)[:, None] + 0.5) / m - (np.arange(n)[None, :] + 0.5) / n)
    prior = np.exp(-DIAGONAL_TENSION * distance)
    prior *= (1 - NULL_PROBABILITY) / prior.sum(1, keepdims=True)
    return np.concatenate((np.full((m, 1), NULL_PROBABILITY), prior), axis=1)


def _type_ids(texts: Sequence[Text]) -> list[NDArray[np.int64]]:
    """Words as type ids from 1 on, in order of first occurrence."""
    ids: dict[str, int] = {}
    return [np.array([ids.setdefault(word, len(ids) + 1) for word in text], dtype=np.int64) for text in texts]
