"""Trace manifest: a trace without its tensors, for the explorer. Tensor names grouped by layer, tokens, search summary.

The server sends it before the tensors; a saved page contains both.
"""

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.data.word_spans import Marks, marks_of, words
from glassformer.inspection.tracing.tensor_groups import TensorFacts, TensorGroup, group_layers
from glassformer.inspection.tracing.trace import Side, Trace
from glassformer.model import Transformer
from glassformer.model.dims import Tensor
from glassformer.model.position_kinds import position_kind

COPIED_FIELDS = {
    *("version", "config", "start_token", "pieces", "target_given", "search", "hypothesis", "changes", "shared")
}
"""Fields of a trace's metadata that its manifest also has."""
MAX_LISTED_HYPOTHESES = 16
"""Maximum number of finished hypotheses in a manifest; the search tree has all."""


class TokenizedText(BaseModel):
    """Source or target of a traced sentence pair: text, token ids, tokens, words."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    text: str
    ids: list[int]
    pieces: list[str]
    words: list[tuple[int, int]]
    """Token span of each word: its first token, and the token after its last."""


class FinishedHypothesis(BaseModel):
    """A finished hypothesis of a search."""

    node: int
    text: str
    score: float | None
    tokens: int


class SearchSummary(BaseModel):
    """Summary of a search tree, which is sent and stored as tensors."""

    nodes: int
    limit: int
    finished: list[FinishedHypothesis]


class Manifest(BaseModel):
    """Manifest of a trace: everything but its tensors, for the explorer."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    version: str
    config: dict[str, Any]
    positions: dict[str, Any]
    """What the model's positions do (`adds`, `biases`, `rotates`), and an `explanation`."""
    source: TokenizedText
    target: TokenizedText
    start_token: str
    """The token that the decoder starts from."""
    pieces: dict[str, str]
    """Display text, by id, of every target token that occurs in the search tree or the output tensors."""
    target_given: bool
    """Whether the target was given; otherwise the model searched for it."""
    search: dict[str, Any]
    hypothesis: int
    changes: list[dict[str, Any]]
    log_probabilities: list[float | None]
    tensors: list[TensorGroup]
    parameters: list[TensorGroup]
    shared: dict[str, str]
    """Tied parameters: name -> the name of the parameter that they share their values with."""
    tree: SearchSummary | None


def manifest(
    identity: str, trace: Trace, weights: Mapping[str, Tensor], tokenizer: AnyTokenizer | IdsOnly | None = None
) -> Manifest:
    """The manifest of a trace. `weights`: the parameters available to the client. `tokenizer`: marks word boundaries.

    Without a tokenizer, word boundaries are guessed from the tokens.
    """
    about, kind = trace.about, position_kind(trace.config)
    marks = None if tokenizer is None else marks_of(tokenizer)
    return Manifest(
        id=identity,
        **about.model_dump(mode="json", include=COPIED_FIELDS),
        positions={name: getattr(kind, name) for name in ("adds", "biases", "rotates", "explanation")},
        source=_side(about.source, marks),
        target=_side(about.target, marks),
        log_probabilities=[finite(log_p) for log_p in trace.log_probabilities],
        tensors=group_layers(_facts(trace), about.axes),
        parameters=group_layers(_facts(weights), {}),
        tree=_search_summary(trace, tokenizer),
    )


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """The model's parameters; tied ones under each of their names."""
    return dict(model.named_parameters(remove_duplicate=False))


def weights_in(trace: Trace) -> dict[str, Tensor]:
    """The parameters stored in a trace; tied ones under each of their names."""
    names = [*trace.parameters, *(name for name, owner in trace.about.shared.items() if owner in trace.parameters)]
    return {name: weight for name in sorted(names) if (weight := trace.parameter(name)) is not None}


def _facts(tensors: Mapping[str, Tensor]) -> dict[str, TensorFacts]:
    return {name: (tuple(tensor.shape), tensor.is_floating_point()) for name, tensor in tensors.items()}


def _side(side: Side, marks: Marks | None) -> TokenizedText:
    spans = [(word.first, word.end) for word in words(side.pieces, marks)]
    return TokenizedText(text=side.text, ids=side.ids, pieces=side.pieces, words=spans)


def _search_summary(trace: Trace, tokenizer: AnyTokenizer | IdsOnly | None) -> SearchSummary | None:
    tree = trace.tree
    if tree is None:
        return None
    finished = [
        FinishedHypothesis(
            node=node,
            text=_text(trace, tree.tokens(node), tokenizer),
            score=finite(tree.score[node]),
            tokens=len(tree.path(node)),
        )
        for node in tree.finished[:MAX_LISTED_HYPOTHESES]
    ]
    return SearchSummary(nodes=len(tree), limit=tree.limit, finished=finished)


def _text(trace: Trace, tokens: list[int], tokenizer: AnyTokenizer | IdsOnly | None) -> str:
    if tokenizer is not None:
        return tokenizer.decode(tokens)
    return " ".join(word.text for word in words([trace.piece(token) for token in tokens], apart=False))


def finite(number: float) -> float | None:
    """The number, or None for infinity and NaN, which JSON does not have."""
    return number if math.isfinite(number) else None
