"""Builds traces: a search that keeps its tree, then one forward pass over the target with every tap recorded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch

from glassformer import __version__, decoding
from glassformer.decoding import Beam, Request, SearchSettings
from glassformer.decoding.search_tree import SearchTree, search_tree
from glassformer.engine.tensor_next_tokens import at_least_float32
from glassformer.engine.torch_step_model import PlainStepModel, UncachedStepModel
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import (
    AnyChange,
    AverageHead,
    Change,
    HeadMeans,
    apply,
    attentions,
    changed_request,
)
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.record import record
from glassformer.inspection.tracing.trace import Side, Trace, TraceInfo, in_memory
from glassformer.model import Transformer
from glassformer.model.dims import Float, Int, Tensor

SideName = Literal["source", "target"]
LIKELIEST_TOKENS = 50
"""Number of most likely tokens stored per target position."""


@dataclass(frozen=True)
class TokenNames:
    """How token ids are shown as text; without a tokenizer, as numbers."""

    pieces: Callable[[Sequence[int], SideName], list[str]]
    text: Callable[[Sequence[int], SideName], str]

    def side(self, ids: Sequence[int], side: SideName) -> Side:
        return Side(text=self.text(ids, side), ids=list(ids), pieces=self.pieces(ids, side))


IDS_AS_TEXT = TokenNames(
    pieces=lambda ids, side: [str(i) for i in ids], text=lambda ids, side: " ".join(str(i) for i in ids[:-1])
)


@torch.no_grad()
def trace(
    model: Transformer,
    request: Request,
    target: Sequence[int] | None = None,
    *,
    search: Beam | None = None,
    names: TokenNames = IDS_AS_TEXT,
    changes: Sequence[Change] = (),
    hypothesis: int = 0,
    node: int | None = None,
    steps: int | None = None,
) -> Trace:
    """Trace the translation of one sentence, with `changes` (interventions) applied.

    Without a `target`, the model searches for one and the trace keeps the search tree. `hypothesis` selects which
    finished hypothesis to trace, 0 being the best; `node` selects any node of the tree instead. `steps` limits the
    number of target positions.
    """
    search = search or Beam()
    changed_model = weight_sharing_copy(model)
    original, request = request, changed_request(request, changes)
    apply(changed_model, changes, means_for(changes, model, [original], search))
    tree = None
    if target is None:
        _, tree = search_tree(_step_model(changed_model, changes), request, search)
        target = _finished(tree, hypothesis) if node is None else _up_to(tree, node)
    target = list(target)
    tensors, axes, same = _recorded(changed_model, request.source, target[:steps])
    named = sorted({*tensors["output.likeliest"].flatten().tolist(), *target, *(tree.token if tree else ())})
    about = TraceInfo(
        version=__version__,
        config=model.config,
        shared=shared_parameters(model),
        asked=names.side(original.source, "source"),
        source=names.side(request.source, "source"),
        target=names.side(target, "target"),
        start_token=names.pieces([model.config.bos_id], "target")[0],
        pieces=dict(zip(map(str, named), names.pieces(named, "target"), strict=True)),
        prefix=list(original.prefix),
        target_given=tree is None,
        search=search,
        hypothesis=hypothesis,
        changes=cast("list[AnyChange]", list(changes)),
        limit=tree.limit if tree else 0,
        axes=axes,
        same=same,
    )
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return in_memory(about, tensors, tree, on_cpu(weights))


def shared_parameters(model: Transformer) -> dict[str, str]:
    """Tied parameters: name -> the first name of the same tensor."""
    first: dict[int, str] = {}
    shared = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if first.setdefault(id(weight), name) != name:
            shared[name] = first[id(weight)]
    return shared


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors where a trace has them, whatever device the model is on."""
    return {name: x.cpu() for name, x in tensors.items()}


@torch.no_grad()
def means_for(
    changes: Sequence[Change], model: Transformer, requests: Sequence[Request], search: SearchSettings
) -> HeadMeans:
    """Mean context vector of every head, over all positions of these sentences and their translations.

    Empty if no change needs it.
    """
    if not any(isinstance(change, AverageHead) for change in changes):
        return {}
    if not requests:
        raise InputError(
            "Replacing a head by its mean needs sentences to average over: pass them as average_over=[...]."
        )
    copy = weight_sharing_copy(model)
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    for request, [best, *_] in zip(requests, decoding.search(PlainStepModel(copy), requests, search), strict=True):
        with record(copy, "*_attention.context") as recording:
            copy(*batch_of_one(copy, request.source, best.tokens))
        for name in attentions(copy):
            context = recording[f"{name}.context"][0]
            sums[name] = sums.get(name, 0) + context.sum(1)
            counts[name] = counts.get(name, 0) + context.shape[1]
    return {name: total / counts[name] for name, total in sums.items()}


def _finished(tree: SearchTree, number: int) -> list[int]:
    finished = tree.finished
    if number >= len(finished):
        raise InputError(
            f"Hypothesis {number} is out of range (0 to {len(finished) - 1}): the search finished {len(finished)}. "
            "A larger beam finishes more."
        )
    return tree.tokens(finished[number])


def _up_to(tree: SearchTree, node: int) -> list[int]:
    if not 0 < node < len(tree):
        raise InputError(f"Node {node} is out of range: the search tree has nodes 1 to {len(tree) - 1} after its root.")
    return tree.tokens(node)


def _recorded(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> tuple[dict[str, Tensor], dict[str, str], dict[str, str]]:
    """Record one forward pass: distinct tensors by tap name, the axes of each tap, and taps with the same tensor.

    The tensors are on the CPU.
    """
    with record(model) as recording:
        logits = at_least_float32(model(*batch_of_one(model, source, target)))[0]
    tensors: dict[str, Tensor] = {}
    axes: dict[str, str] = {}
    same: dict[str, str] = {}
    first_names: dict[tuple[object, ...], str] = {}
    for name in recording:
        letters, tensor = recording.axes(name), recording[name]
        if letters[0] == "B":
            letters, tensor = letters[1:], tensor[0]
        axes[name] = " ".join(letters)
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if first_names.setdefault(identity, name) != name:
            same[name] = first_names[identity]
            continue
        tensors[name] = tensor
        if name.endswith(".heads_out"):
            tensors[f"{name}_norm"], axes[f"{name}_norm"] = tensor.norm(dim=-1), " ".join(letters[:-1])
    output = _output(logits, torch.tensor(target, device=logits.device))
    return on_cpu(tensors | output), axes | {name: "T" if x.dim() == 1 else "T V" for name, x in output.items()}, same


def _output(logits: Float[Tensor, "T V"], written: Int[Tensor, " T"]) -> dict[str, Tensor]:
    """Summary of the logits per position: the most likely tokens, the entropy, the written token's probability."""
    log_ps = logits.log_softmax(-1)
    top = log_ps.topk(min(LIKELIEST_TOKENS, logits.shape[-1]))
    return {
        "output.likeliest": top.indices.int(),
        "output.likeliest_logits": logits.gather(1, top.indices),
        "output.log_normaliser": logits.logsumexp(-1),
        "output.mean_logit": logits.mean(-1),  # for the term of label smoothing in the loss
        "output.entropy": -(log_ps.exp() * log_ps).nan_to_num(0).sum(-1),
        "output.log_probability": log_ps.gather(1, written[:, None])[:, 0].clamp(max=0),
    }


def batch_of_one(model: Transformer, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The model's inputs for one sentence pair: source ids, and target ids from the start token to the last but one."""
    device = model.output_projection.weight.device
    before = [model.config.bos_id, *target[:-1]]
    return torch.tensor([list(source)], device=device), torch.tensor([before], device=device)


def _step_model(model: Transformer, changes: Sequence[Change]) -> PlainStepModel:
    """Step model for the search; uncached if a change refers to target positions, which must then all be computed."""
    return UncachedStepModel(model) if any(change.POSITIONAL for change in changes) else PlainStepModel(model)
