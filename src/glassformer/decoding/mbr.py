"""Minimum Bayes risk: of several targets, the one that agrees most with all of them (Kumar and Byrne, 2004)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Target = TypeVar("Target", bound=Hashable)


def most_agreeable(targets: Sequence[Target], agreement: Callable[[Target, Target], float]) -> int:
    """The number of the target with the highest mean agreement(target, other); of equals, the first.

    Equal targets are compared once: a sample that comes often counts often, and costs nothing.
    """
    weights = Counter(targets)
    means = {target: sum(weight * agreement(target, other) for other, weight in weights.items()) for target in weights}
    return max(range(len(targets)), key=lambda i: means[targets[i]])
