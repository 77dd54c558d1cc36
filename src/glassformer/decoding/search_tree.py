"""A beam search to look back on: every hypothesis it looked at, where it came from, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from glassformer.decoding.beam import BeamSearch, BeamStep
from glassformer.decoding.continuous_batching import suppressed, task_for
from glassformer.decoding.hypothesis import Hypothesis, Node, penalised
from glassformer.decoding.rules import Request, Rules
from glassformer.decoding.search_settings import Beam
from glassformer.decoding.step_model import StepModel
from glassformer.decoding.stepwise_search import Found, SearchTask, StepwiseBatchSearch

Fate = Literal["start", "kept", "ended", "outranked", "displaced", "abandoned"]
"""What became of a hypothesis: it was gone on with; it ended; others were better; it made room for the greedy one; or
it still grew when nothing could come among the wanted any more."""
FATES: tuple[Fate, ...] = get_args(Fate)


@dataclass(frozen=True)
class SearchTree:
    """Hypotheses as nodes, numbered as they came up, the start first; a node is its newest token."""

    parent: list[int]
    """The number of the node before; -1 at the start."""
    token: list[int]
    log_probability: list[float]
    """Of the token, in nats."""
    score: list[float]
    """What hypotheses are compared by: the sum of log-probabilities after the length penalty."""
    fate: list[Fate]
    length_penalty: float
    limit: int
    """Tokens that a hypothesis may have; at the last only the end may come."""

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, node: int) -> list[int]:
        """The nodes from behind the start to this one."""
        way = []
        while node > 0:
            way.append(node)
            node = self.parent[node]
        return way[::-1]

    def tokens(self, node: int) -> list[int]:
        """The hypothesis that this node is the end of."""
        return [self.token[one] for one in self.path(node)]

    def hypothesis(self, node: int) -> Hypothesis:
        """The same with its log-probabilities and its score."""
        return Hypothesis(self.tokens(node), [self.log_probability[n] for n in self.path(node)], self.score[node])

    def children(self, node: int) -> list[int]:
        """Those that go on from a node, best first."""
        return [number for number, parent in enumerate(self.parent) if parent == node]

    @property
    def ended(self) -> list[int]:
        """The nodes that end a target, best first; of equals, the one found first."""
        nodes = [number for number, fate in enumerate(self.fate) if fate == "ended"]
        return sorted(nodes, key=lambda node: -self.score[node])

    def why(self, node: int) -> str:
        """What became of a node, in words."""
        match self.fate[node]:
            case "start":
                return "the start"
            case "kept":
                return "among the best of its step: gone on with"
            case "outranked":
                return "others of its step were better: dropped"
            case "displaced":
                return "dropped for the hypothesis of the likeliest tokens, which keeps a place"
            case "abandoned":
                return "still growing when nothing could beat what had ended"
        place = self.ended.index(node) + 1
        at_limit = " at the longest length allowed" if len(self.path(node)) == self.limit else ""
        return f"ended{at_limit}, number {place} of {len(self.ended)}"


class RecordedSearch(StepwiseBatchSearch):
    """A search that writes down every step."""

    def __init__(self, step_model: StepModel, settings: Beam, suppress: Sequence[int]) -> None:
        super().__init__(step_model, settings, suppress)
        self.beam = settings
        self.steps: list[BeamStep] = []

    def _begun(self, task: SearchTask) -> BeamSearch:
        return BeamSearch(task.rules, self.beam, self.step_model.bos, self.steps)


@torch.no_grad()
def search_tree(step_model: StepModel, request: Request, settings: Beam) -> tuple[list[Hypothesis], SearchTree]:
    """The hypotheses that `search` would find for one request, best first, and all that were looked at."""
    task = task_for(step_model, 0, request, settings)
    watched = RecordedSearch(step_model, settings, suppressed(step_model, settings))
    watched.join([task])
    over: list[Found] = []
    while not over:
        over = watched.advance()
    [(_, found)] = over
    return found, tree_of(watched.steps, settings, task.rules)


def tree_of(steps: Sequence[BeamStep], settings: Beam, rules: Rules) -> SearchTree:
    """The tree that the steps of a search grew."""
    tree = SearchTree([-1], [-1], [0.0], [0.0], ["start"], settings.length_penalty, rules.limit)
    numbers: dict[Node, int] = {}
    for step in steps:
        if not numbers:
            numbers[step.growing[0]] = 0
            tree.token[0] = step.growing[0].token
        kept = {(row, node.token): node for row, node in step.kept}
        ended = {(node.parent, node.token) for node in step.ended}
        room = settings.width  # the best of a step are gone on with, unless the greedy one takes the last place
        for _, row, _, token, log_p in step.ranked:
            parent = step.growing[row]
            number = len(tree)
            tree.parent.append(numbers[parent])
            tree.token.append(token)
            tree.log_probability.append(log_p)
            tree.score.append(penalised(parent.total + log_p, parent.length + 1, settings.length_penalty))
            fate: Fate = "outranked"
            if (row, token) in kept:
                fate = "abandoned" if step is steps[-1] else "kept"
                numbers[kept[row, token]] = number
            elif (parent, token) in ended:
                fate = "ended"
            elif token != rules.eos and room > 0:
                fate = "displaced"
            room -= token != rules.eos
            tree.fate.append(fate)
    return tree
