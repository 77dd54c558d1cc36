"""What a trace is of, small enough to be sent first: names folded by layer, tokens, the search in short.

The server sends it before the numbers, and a saved page carries it beside them.
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

LAYER = re.compile(r"\.layers\.(\d+)\.")
ENDED = 16
"""Hypotheses that are listed; `/tree` has all."""


class Folded(BaseModel):
    """Tensors of one name in several layers."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """With * for the number of the layer, where there are layers."""
    layers: int | list[int] | None = None
    """So many, counted from 0; or which; None where there is no *."""
    axes: str | None = None
    """Letters of its dimensions."""
    shape: list[int]
    dtype: str | None = None
    """float32 unless said."""


class SideOf(BaseModel):
    """One side of a traced sentence."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    text: str
    ids: list[int]
    pieces: list[str]
    words: list[tuple[int, int]]
    """From which token to which each word goes; the last is not in it."""


class Ended(BaseModel):
    """A hypothesis that a search ended."""

    node: int
    text: str
    score: float | None
    tokens: int


class Grown(BaseModel):
    """A search to look back on, in short; `/tree` has all of it."""

    nodes: int
    limit: int
    ended: list[Ended]


class Manifest(BaseModel):
    """What a trace is of: everything but its numbers."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    version: str
    config: dict[str, Any]
    source: SideOf
    target: SideOf
    first: str
    """The piece that the decoder starts from."""
    pieces: dict[str, str]
    """Every target token that the search or the output looked at, by its id."""
    given: bool
    """Whether the target was given; else the model found it."""
    search: dict[str, Any]
    hypothesis: int
    changes: list[dict[str, Any]]
    log_probabilities: list[float | None]
    tensors: list[Folded]
    parameters: list[Folded]
    shared: dict[str, str]
    """Parameters that are others: name -> the one whose numbers they are."""
    tree: Grown | None


def manifest(
    identity: str, trace: Trace, weights: Mapping[str, Tensor], tokenizer: AnyTokenizer | IdsOnly | None = None
) -> Manifest:
    """Everything but the numbers. `weights`: those that can be asked for; without a tokenizer, words are guessed."""
    about = trace.about
    marks = None if tokenizer is None else marks_of(tokenizer)
    return Manifest(
        id=identity,
        version=about.version,
        config=about.config.model_dump(mode="json"),
        source=_side(about.source, marks),
        target=_side(about.target, marks),
        first=about.first,
        pieces=about.pieces,
        given=about.given,
        search=about.search.model_dump(mode="json"),
        hypothesis=about.hypothesis,
        changes=[change.model_dump(mode="json") for change in about.changes],
        log_probabilities=[finite(log_p) for log_p in trace.log_probabilities],
        tensors=folded({name: trace[name] for name in trace}, {name: " ".join(trace.axes(name)) for name in trace}),
        parameters=folded(weights, {}),
        shared=about.shared,
        tree=_grown(trace, tokenizer),
    )


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """The model's weights, each under all its names."""
    return dict(model.named_parameters(remove_duplicate=False))


def weights_in(trace: Trace) -> dict[str, Tensor]:
    """The weights that a trace has with it, each under all its names."""
    names = [*trace.parameters, *(name for name, owner in trace.about.shared.items() if owner in trace.parameters)]
    return {name: weight for name in sorted(names) if (weight := trace.parameter(name)) is not None}


def folded(tensors: Mapping[str, Tensor], axes: Mapping[str, str]) -> list[Folded]:
    """The same tensor of all layers as one entry."""
    groups: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    for name, tensor in tensors.items():
        layer = LAYER.search(name)
        pattern = name if layer is None else name[: layer.start(1)] + "*" + name[layer.end(1) :]
        kind = "float32" if tensor.is_floating_point() else "int32"
        numbers = groups.setdefault((pattern, tuple(tensor.shape), kind), [])
        if layer is not None:
            numbers.append(int(layer[1]))
    letters = {_pattern(name): own for name, own in axes.items()}
    return [
        Folded(
            name=pattern,
            layers=_counted(sorted(layers)),
            axes=letters.get(pattern),
            shape=list(shape),
            dtype=None if kind == "float32" else kind,
        )
        for (pattern, shape, kind), layers in groups.items()
    ]


def unfolded(entries: Iterable[Folded]) -> list[str]:
    """All names that entries stand for."""
    names = []
    for entry in entries:
        layers = range(entry.layers) if isinstance(entry.layers, int) else entry.layers
        names += [entry.name] if layers is None else [entry.name.replace("*", str(i), 1) for i in layers]
    return names


def _pattern(name: str) -> str:
    return LAYER.sub(".layers.*.", name, count=1)


def _counted(layers: list[int]) -> int | list[int] | None:
    if not layers:
        return None
    return len(layers) if layers == list(range(len(layers))) else layers


def _side(side: Side, marks: Marks | None) -> SideOf:
    spans = [(word.first, word.end) for word in words(side.pieces, marks)]
    return SideOf(text=side.text, ids=side.ids, pieces=side.pieces, words=spans)


def _grown(trace: Trace, tokenizer: AnyTokenizer | IdsOnly | None) -> Grown | None:
    tree = trace.tree
    if tree is None:
        return None
    ended = [
        Ended(
            node=node,
            text=_text(trace, tree.tokens(node), tokenizer),
            score=finite(tree.score[node]),
            tokens=len(tree.path(node)),
        )
        for node in tree.ended[:ENDED]
    ]
    return Grown(nodes=len(tree), limit=tree.limit, ended=ended)


def _text(trace: Trace, tokens: list[int], tokenizer: AnyTokenizer | IdsOnly | None) -> str:
    if tokenizer is not None:
        return tokenizer.decode(tokens)
    return " ".join(word.text for word in words([trace.piece(token) for token in tokens], apart=False))


def finite(number: float) -> float | None:
    """JSON knows no infinity."""
    return number if math.isfinite(number) else None
