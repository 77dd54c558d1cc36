"""What a trace is of, small enough to be sent first: names folded by layer, tokens, the search in short."""

import re
from collections.abc import Iterable, Mapping

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.inspection import Trace
from glassformer.inspection.trace import Side
from glassformer.inspection.words import Marks, marks_of, words
from glassformer.model import Transformer
from glassformer.model.dims import Tensor
from glassformer.web.schemas import Ended, Folded, Grown, Manifest, SideOf
from glassformer.web.service import finite

LAYER = re.compile(r"\.layers\.(\d+)\.")
ENDED = 16
"""Hypotheses that are listed; `/tree` has all."""


def manifest(identity: str, trace: Trace, model: Transformer, tokenizer: AnyTokenizer | IdsOnly) -> Manifest:
    """Everything but the numbers."""
    about, marks = trace.about, marks_of(tokenizer)
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
        parameters=parameters(model),
        shared=about.shared,
        tree=_grown(trace, tokenizer),
    )


def parameters(model: Transformer) -> list[Folded]:
    """The model's weights, by name."""
    return folded(dict(model.named_parameters(remove_duplicate=False)), {})


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
            layers=_counted(layers),
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


def _side(side: Side, marks: Marks) -> SideOf:
    spans = [(word.first, word.end) for word in words(side.pieces, marks)]
    return SideOf(text=side.text, ids=side.ids, pieces=side.pieces, words=spans)


def _grown(trace: Trace, tokenizer: AnyTokenizer | IdsOnly) -> Grown | None:
    tree = trace.tree
    if tree is None:
        return None
    ended = [
        Ended(
            node=node,
            text=tokenizer.decode(tree.tokens(node)),
            score=finite(tree.score[node]),
            tokens=len(tree.path(node)),
        )
        for node in tree.ended[:ENDED]
    ]
    return Grown(nodes=len(tree), limit=tree.limit, ended=ended)
