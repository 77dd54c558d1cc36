"""A target under way, and a target that has ended. Knows ids and numbers only."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True, eq=False)  # not frozen: that would make the making of one three times as slow
class Node:
    """The newest token of a target under way, and the way back to its start. Hypotheses share their beginnings."""

    parent: "Node | None"
    token: int
    log_p: float
    """Of this token, in nats."""
    total: float
    """Of all tokens up to this one."""
    length: int
    """Tokens up to this one; the start is not one of them."""
    greedy: bool = True
    """Whether every token up to this one was the likeliest in its place."""

    def then(self, token: int, log_p: float, likeliest: bool) -> "Node":
        """The same target with one token more."""
        return Node(self, token, log_p, self.total + log_p, self.length + 1, self.greedy and likeliest)

    @property
    def tokens(self) -> list[int]:
        return [node.token for node in self._way()]

    @property
    def log_ps(self) -> list[float]:
        return [node.log_p for node in self._way()]

    def _way(self) -> list["Node"]:
        """From the first token to this one."""
        return list(self._back())[::-1]

    def _back(self) -> Iterator["Node"]:
        node: Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent


def start(token: int) -> Node:
    """The start, which counts nothing."""
    return Node(None, token, 0.0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One way to end a target."""

    tokens: list[int]
    """Without the start, with the end of sentence."""
    log_probabilities: list[float]
    """Of each token after those before it, in nats: the model's own, whatever rules chose among them."""
    score: float
    """What hypotheses are compared by: the sum of them after the length penalty."""

    @property
    def log_probability(self) -> float:
        """Of all the tokens."""
        return sum(self.log_probabilities)


def ended(node: Node, length_penalty: float) -> Hypothesis:
    """The target that ends with this token."""
    return Hypothesis(node.tokens, node.log_ps, penalised(node.total, node.length, length_penalty))


def penalised(log_probability: float, length: int, length_penalty: float) -> float:
    """log-probability / length ** length_penalty: without it, short targets win, since every token costs something."""
    return log_probability / length**length_penalty
