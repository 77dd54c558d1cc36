"""Search tree of a beam search: every hypothesis considered, its parent, and what happened to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from glassformer.decoding.beam import Beam, BeamSearch, BeamStep
from glassformer.decoding.continuous_batching import SearchBackend, suppressed
from glassformer.decoding.hypothesis import Hypothesis, Node, penalised
from glassformer.decoding.rules import Request, Rules
from glassformer.decoding.step_model import StepModel
from glassformer.decoding.stepwise_search import SearchResult, StepwiseBatchSearch

Fate = Literal["start", "kept", "finished", "outranked", "displaced", "abandoned"]
"""What happened to a hypothesis in a beam search, such as "kept" or "outranked".

It was extended (kept); finished; others were better (outranked); the greedy hypothesis took its place
(displaced); or it was unfinished when the search stopped because no hypothesis could still reach the n best
(abandoned)."""
FATES: tuple[Fate, ...] = get_args(Fate)


@dataclass(frozen=True)
class SearchTree:
    """Tree of the hypotheses explored by a search: each node adds one token to its parent; node 0 is the start token.

    Nodes are numbered in order of creation.
    """

    parent: list[int]
    """Number of each node's parent; -1 for the start."""
    token: list[int]
    log_probability: list[float]
    """Log-probability of each node's token, in nats."""
    score: list[float]
    """Score of each node, by which hypotheses are ranked: the sum of log-probabilities after the length penalty."""
    fate: list[Fate]
    length_penalty: float
    limit: int
    """Maximum number of tokens per hypothesis; the last can only be the end of sentence."""

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, node: int) -> list[int]:
        """The nodes from the first token (after the start) to this one."""
        nodes = []
        while node > 0:
            nodes.append(node)
            node = self.parent[node]
        return nodes[::-1]

    def tokens(self, node: int) -> list[int]:
        """The tokens of the hypothesis that ends with this node."""
        return [self.token[n] for n in self.path(node)]

    def hypothesis(self, node: int) -> Hypothesis:
        """The hypothesis that ends with this node: tokens, log-probabilities and score."""
        return Hypothesis(self.tokens(node), [self.log_probability[n] for n in self.path(node)], self.score[node])

    def children(self, node: int) -> list[int]:
        """The continuations of a node, best first."""
        return [number for number, parent in enumerate(self.parent) if parent == node]

    @property
    def finished(self) -> list[int]:
        """The nodes that finish a target, best first; ties in the order in which they were found."""
        nodes = [number for number, fate in enumerate(self.fate) if fate == "finished"]
        return sorted(nodes, key=lambda node: -self.score[node])

    def why(self, node: int) -> str:
        """What happened to a node's hypothesis, in words."""
        match self.fate[node]:
            case "start":
                return "the start"
            case "kept":
                return "among the best of its step: extended"
            case "outranked":
                return "outranked by others of its step: dropped"
            case "displaced":
                return "dropped in favour of the greedy hypothesis, which always keeps a place"
            case "abandoned":
                return "unfinished when nothing could beat the finished hypotheses any more"
        place = self.finished.index(node) + 1
        at_limit = " at the maximum length" if len(self.path(node)) == self.limit else ""
        return f"finished{at_limit}, number {place} of {len(self.finished)}"


def search_tree(step_model: StepModel, request: Request, settings: Beam) -> tuple[list[Hypothesis], SearchTree]:
    """Search for one request; returns the hypotheses, best first, as `search` does, and the tree of all considered."""
    [task] = SearchBackend(step_model).tasks([request], settings, [0])
    batch_search = StepwiseBatchSearch(step_model, settings, suppressed(step_model, settings))
    batch_search.join([task])
    steps: list[BeamStep] = []
    batch_search.running[task.number] = BeamSearch(task.rules, settings, step_model.bos, log=steps)
    finished: list[SearchResult] = []
    while not finished:
        finished = batch_search.advance()
    [(_, hypotheses)] = finished
    return hypotheses, tree_of(steps, settings, task.rules)


def tree_of(steps: Sequence[BeamStep], settings: Beam, rules: Rules) -> SearchTree:
    """Build the search tree from the recorded steps of a beam search."""
    tree = SearchTree([-1], [-1], [0.0], [0.0], ["start"], settings.length_penalty, rules.limit)
    numbers: dict[Node, int] = {}
    for step in steps:
        if not numbers:
            numbers[step.growing[0]] = 0
            tree.token[0] = step.growing[0].token
        kept = {(row, node.token): node for row, node in step.kept}
        finished = {(node.parent, node.token) for node in step.ended}
        places_left = settings.width  # the best of a step are extended, unless the greedy one takes the last place
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
            elif (parent, token) in finished:
                fate = "finished"
            elif token != rules.eos and places_left > 0:
                fate = "displaced"
            places_left -= token != rules.eos
            tree.fate.append(fate)
    return tree
