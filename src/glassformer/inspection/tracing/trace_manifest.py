"""Trace manifest: a trace without its tensors, for the explorer. Tensor names grouped by layer, tokens, search summary.

The server sends it before the tensors; a saved page contains both.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.inspection.alignment.word_spans import Marks, marks_of, words
from glassformer.inspection.tracing.trace import Side, Trace
from glassformer.model import Transformer
from glassformer.model.dims import Tensor
from glassformer.model.positions import position_kind

LAYER = re.compile(r"\.layers\.(\d+)\.")
MAX_LISTED_HYPOTHESES = 16
"""Maximum number of finished hypotheses in a manifest; the search tree has all."""


class TensorGroup(BaseModel):
    """Tensors that differ only in the layer number of their names."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """Tensor name, with * for the layer number if it has one."""
    layers: int | list[int] | None = None
    """Layers of the group: n for layers 0 to n - 1, or a list of layer numbers; None if the name has no *."""
    axes: str | None = None
    """Letters of the tensors' dimensions, as in `glassformer.model.dims`."""
    shape: list[int]
    dtype: str | None = None
    """Data type of the tensors; float32 if omitted."""


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
        version=about.version,
        config=about.config.model_dump(mode="json"),
        positions={name: getattr(kind, name) for name in ("adds", "biases", "rotates", "explanation")},
        source=_side(about.source, marks),
        target=_side(about.target, marks),
        start_token=about.start_token,
        pieces=about.pieces,
        target_given=about.target_given,
        search=about.search.model_dump(mode="json"),
        hypothesis=about.hypothesis,
        changes=[change.model_dump(mode="json") for change in about.changes],
        log_probabilities=[finite(log_p) for log_p in trace.log_probabilities],
        tensors=group_layers(
            {name: trace[name] for name in trace}, {name: " ".join(trace.axes(name)) for name in trace}
        ),
        parameters=group_layers(weights, {}),
        shared=about.shared,
        tree=_search_summary(trace, tokenizer),
    )


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """The model's parameters; tied ones under each of their names."""
    return dict(model.named_parameters(remove_duplicate=False))


def weights_in(trace: Trace) -> dict[str, Tensor]:
    """The parameters stored in a trace; tied ones under each of their names."""
    names = [*trace.parameters, *(name for name, owner in trace.about.shared.items() if owner in trace.parameters)]
    return {name: weight for name in sorted(names) if (weight := trace.parameter(name)) is not None}


def group_layers(tensors: Mapping[str, Tensor], axes: Mapping[str, str]) -> list[TensorGroup]:
    """Group tensors by name: one entry per tensor, with the same tensor of all layers as one entry."""
    groups: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    for name, tensor in tensors.items():
        layer = LAYER.search(name)
        pattern = name if layer is None else name[: layer.start(1)] + "*" + name[layer.end(1) :]
        kind = "float32" if tensor.is_floating_point() else "int32"
        numbers = groups.setdefault((pattern, tuple(tensor.shape), kind), [])
        if layer is not None:
            numbers.append(int(layer[1]))
    letters = {_pattern(name): tensor_axes for name, tensor_axes in axes.items()}
    return [
        TensorGroup(
            name=pattern,
            layers=_layer_range(sorted(layers)),
            axes=letters.get(pattern),
            shape=list(shape),
            dtype=None if kind == "float32" else kind,
        )
        for (pattern, shape, kind), layers in groups.items()
    ]


def tensor_names(entries: Iterable[TensorGroup]) -> list[str]:
    """The tensor names that these groups stand for."""
    names = []
    for entry in entries:
        layers = range(entry.layers) if isinstance(entry.layers, int) else entry.layers
        names += [entry.name] if layers is None else [entry.name.replace("*", str(i), 1) for i in layers]
    return names


def _pattern(name: str) -> str:
    return LAYER.sub(".layers.*.", name, count=1)


def _layer_range(layers: list[int]) -> int | list[int] | None:
    if not layers:
        return None
    return len(layers) if layers == list(range(len(layers))) else layers


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
