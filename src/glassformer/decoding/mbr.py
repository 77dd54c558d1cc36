"""Minimum Bayes risk decoding: of several targets, the one most similar to all of them (Kumar and Byrne, 2004)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Target = TypeVar("Target", bound=Hashable)


def mbr_index(targets: Sequence[Target], similarity: Callable[[Target, Target], float]) -> int:
    """The index of the target with the highest mean similarity(target, other); the first of equals.

    Equal targets are compared once and weighted by their number, so that duplicates cost nothing.
    """
    weights = Counter(targets)
    means = {target: sum(weight * similarity(target, other) for other, weight in weights.items()) for target in weights}
    return max(range(len(targets)), key=lambda i: means[targets[i]])
