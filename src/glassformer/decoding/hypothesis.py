"""Unfinished targets as linked nodes, and finished hypotheses. Token ids and numbers only."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Head = tuple[int, int]
"""A cross-attention head: the index of its decoder layer, and its own in the layer."""
Attention = np.ndarray[Any, np.dtype[np.floating[Any]]]
"""Cross-attention weights of some heads, axes C T S: head, step that outputs a target token, source token."""
Candidate = tuple[int, float]
"""A possible next token and its log-probability."""


@dataclass(slots=True, eq=False)  # not frozen: that would make construction three times as slow
class Node:
    """The newest token of an unfinished target, linked to the token before it. Hypotheses share their prefixes."""

    parent: "Node | None"
    token: int
    log_p: float
    """Log-probability of this token, in nats."""
    total: float
    """Sum of the log-probabilities up to and including this token."""
    length: int
    """Number of tokens up to and including this one, not counting the start token."""
    greedy: bool = True
    """Whether every token so far was the most likely one at its position."""

    def then(self, token: int, log_p: float, likeliest: bool) -> "Node":
        """This target extended by one token."""
        return Node(self, token, log_p, self.total + log_p, self.length + 1, self.greedy and likeliest)

    @property
    def tokens(self) -> list[int]:
        return [node.token for node in self._path()]

    @property
    def log_ps(self) -> list[float]:
        return [node.log_p for node in self._path()]

    def _path(self) -> list["Node"]:
        """The nodes of this target, from its first token to this one."""
        return list(self._backwards())[::-1]

    def _backwards(self) -> Iterator["Node"]:
        node: Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent


def start_node(token: int) -> Node:
    """Node of the start token: length 0, log-probability 0."""
    return Node(None, token, 0.0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished target with its log-probabilities and score."""

    tokens: list[int]
    """Token ids, without the start token, with the end of sentence."""
    log_probabilities: list[float]
    """The model's log-probability of each token given those before it, in nats, even where rules limit the choice."""
    score: float
    """Score by which hypotheses are ranked: the sum of the log-probabilities after the length penalty."""
    attention: Attention | None = field(default=None, repr=False, compare=False)
    """Weights of the heads that the request asked for; None if the search did not record them."""

    @property
    def log_probability(self) -> float:
        """Log-probability of the whole target: the sum over all tokens, in nats."""
        return sum(self.log_probabilities)


def to_hypothesis(node: Node, length_penalty: float) -> Hypothesis:
    """The finished target whose last token is this node."""
    return Hypothesis(node.tokens, node.log_ps, penalised(node.total, node.length, length_penalty))


def penalised(log_probability: float, length: int, length_penalty: float) -> float:
    """Score after the length penalty: log-probability / length ** length_penalty.

    Without it short targets win, since every token lowers the sum.
    """
    return log_probability / length**length_penalty
