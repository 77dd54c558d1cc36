"""Making traces: a search to look back on, then one pass over the target it found, with every tap listened to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch

from glassformer import __version__, decoding
from glassformer.decoding import Beam, PlainStepModel, Request, SearchSettings
from glassformer.decoding.search_tree import SearchTree, search_tree
from glassformer.decoding.step_model import UncachedStepModel, at_least_float32
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import (
    AnyChange,
    AverageHead,
    Change,
    Means,
    apply,
    attentions,
    changed_request,
)
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.record import record
from glassformer.inspection.tracing.trace import Side, Trace, TraceInfo, in_memory
from glassformer.model import Transformer
from glassformer.model.dims import Float, Int, Tensor

Which = Literal["source", "target"]
LIKELIEST = 50
"""Tokens kept at each target position, the likeliest."""


@dataclass(frozen=True)
class TokenNames:
    """How ids are shown; a model without a tokenizer shows numbers."""

    pieces: Callable[[Sequence[int], Which], list[str]]
    text: Callable[[Sequence[int], Which], str]

    def side(self, ids: Sequence[int], side: Which) -> Side:
        return Side(text=self.text(ids, side), ids=list(ids), pieces=self.pieces(ids, side))


NUMBERS = TokenNames(
    pieces=lambda ids, side: [str(i) for i in ids],
    text=lambda ids, side: " ".join(str(i) for i in ids[:-1]),
)


@torch.no_grad()
def trace(
    model: Transformer,
    request: Request,
    target: Sequence[int] | None = None,
    *,
    search: Beam | None = None,
    names: TokenNames = NUMBERS,
    changes: Sequence[Change] = (),
    hypothesis: int = 0,
    node: int | None = None,
    steps: int | None = None,
) -> Trace:
    """One sentence's way through the model, under changes if there are any.

    Without a `target` the model searches for one, and the tree of its search is kept; `hypothesis` says which of those
    that ended is followed, the best first, and `node` any node of the tree. `steps`: only so many target positions.
    """
    search = search or Beam()
    mine = weight_sharing_copy(model)
    asked, request = request, changed_request(request, changes)
    apply(mine, changes, means_for(changes, model, [asked], search))
    tree = None
    if target is None:
        _, tree = search_tree(_predictor(mine, changes), request, search)
        target = _followed(tree, hypothesis) if node is None else _up_to(tree, node)
    target = list(target)
    tensors, axes, same = _passed(mine, request.source, target[:steps])
    seen = sorted({*tensors["output.likeliest"].flatten().tolist(), *target, *(tree.token if tree else ())})
    about = TraceInfo(
        version=__version__,
        config=model.config,
        shared=shared_parameters(model),
        asked=names.side(asked.source, "source"),
        source=names.side(request.source, "source"),
        target=names.side(target, "target"),
        first=names.pieces([model.config.bos_id], "target")[0],
        pieces=dict(zip(map(str, seen), names.pieces(seen, "target"), strict=True)),
        prefix=list(asked.prefix),
        given=tree is None,
        search=search,
        hypothesis=hypothesis,
        changes=cast("list[AnyChange]", list(changes)),
        limit=tree.limit if tree else 0,
        axes=axes,
        same=same,
    )
    return in_memory(about, tensors, tree, {name: weight.detach() for name, weight in model.named_parameters()})


def shared_parameters(model: Transformer) -> dict[str, str]:
    """Parameters that are others': name -> the first name of the same numbers."""
    first: dict[int, str] = {}
    shared = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if first.setdefault(weight.data_ptr(), name) != name:
            shared[name] = first[weight.data_ptr()]
    return shared


@torch.no_grad()
def means_for(
    changes: Sequence[Change], model: Transformer, requests: Sequence[Request], search: SearchSettings
) -> Means:
    """What each head of each attention says on average, over all positions of these sentences and their translations.

    Nothing, where no change asks for it.
    """
    if not any(isinstance(change, AverageHead) for change in changes):
        return {}
    if not requests:
        raise InputError("To put a head's mean in its place, say over which sentences: average_over=[...].")
    mine = weight_sharing_copy(model)
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    for request, [best, *_] in zip(requests, decoding.search(PlainStepModel(mine), requests, search), strict=True):
        with record(mine, "*_attention.context") as heard:
            mine(*_ids(mine, request.source, best.tokens))
        for name in attentions(mine):
            context = heard[f"{name}.context"][0]
            sums[name] = sums.get(name, 0) + context.sum(1)
            counts[name] = counts.get(name, 0) + context.shape[1]
    return {name: total / counts[name] for name, total in sums.items()}


def _followed(tree: SearchTree, number: int) -> list[int]:
    ended = tree.ended
    if number >= len(ended):
        raise InputError(
            f"The search ended {len(ended)} hypotheses, counted from 0, and none is {number}: widen the beam."
        )
    return tree.tokens(ended[number])


def _up_to(tree: SearchTree, node: int) -> list[int]:
    if not 0 < node < len(tree):
        raise InputError(f"The tree has nodes from 1 to {len(tree) - 1} behind its start, and none is {node}.")
    return tree.tokens(node)


def _passed(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> tuple[dict[str, Tensor], dict[str, str], dict[str, str]]:
    """Every tap's tensor once, each one's axes, and which taps heard what another had."""
    with record(model) as heard:
        logits = at_least_float32(model(*_ids(model, source, target)))[0]
    tensors: dict[str, Tensor] = {}
    axes: dict[str, str] = {}
    same: dict[str, str] = {}
    places: dict[tuple[object, ...], str] = {}
    for name in heard:
        letters, tensor = heard.axes(name), heard[name]
        if letters[0] == "B":
            letters, tensor = letters[1:], tensor[0]
        axes[name] = " ".join(letters)
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if places.setdefault(place, name) != name:
            same[name] = places[place]
            continue
        tensors[name] = tensor
        if name.endswith(".heads_out"):
            tensors[f"{name}_norm"], axes[f"{name}_norm"] = tensor.norm(dim=-1), " ".join(letters[:-1])
    written = torch.tensor(target, device=logits.device)
    output = _output(logits, written)
    return tensors | output, axes | {name: "T" if x.dim() == 1 else "T V" for name, x in output.items()}, same


def _output(logits: Float[Tensor, "T V"], written: Int[Tensor, " T"]) -> dict[str, Tensor]:
    """What a position's logits come to: its likeliest tokens, and how likely what was written is."""
    log_ps = logits.log_softmax(-1)
    top = log_ps.topk(min(LIKELIEST, logits.shape[-1]))
    return {
        "output.likeliest": top.indices.int(),
        "output.likeliest_logits": logits.gather(1, top.indices),
        "output.log_normaliser": logits.logsumexp(-1),
        "output.mean_logit": logits.mean(-1),  # what label smoothing asks of the others
        "output.entropy": -(log_ps.exp() * log_ps).nan_to_num(0).sum(-1),
        "output.log_probability": log_ps.gather(1, written[:, None])[:, 0].clamp(max=0),
    }


def _ids(model: Transformer, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
    device = model.output_projection.weight.device
    before = [model.config.bos_id, *target[:-1]]
    return torch.tensor([list(source)], device=device), torch.tensor([before], device=device)


def _predictor(model: Transformer, changes: Sequence[Change]) -> PlainStepModel:
    """A change that names target positions must see them all, and not only the newest."""
    return UncachedStepModel(model) if any(change.POSITIONAL for change in changes) else PlainStepModel(model)
