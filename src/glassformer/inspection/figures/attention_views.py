"""Data for the figures of one attention: projections, scores, weights, heads and output."""

import re
from typing import Any

import torch

from glassformer.errors import InputError
from glassformer.inspection.explanation.token_lookup import position_of
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.figure_tokens import source_tokens, target_tokens
from glassformer.inspection.figures.tensor_rows import Table, matrices, matrix, rounded_number, weight
from glassformer.inspection.tracing.trace import Trace
from glassformer.model.dims import Tensor
from glassformer.model.position_kinds import position_kind

ATTENTION_NAME = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention")

VIEW_PARTS: dict[str, tuple[str, ...]] = {
    "qkv": ("input", "memory", "q", "k", "v", "wq", "wk", "wv"),
    "self-attention": ("q", "k", "v", "scores", "weights", "context"),
    "heads": ("q", "k", "v"),
    "heads-out": ("context", "share"),
    "concat": ("context", "wo", "output"),
    "multi-head": ("input", "memory", "q", "k", "v", "wq", "wk", "wv", "weights", "context", "wo", "output"),
    "attention": ("weights",),
}
"""View of an attention -> the parts of `AttentionData` that it draws."""
SINGLE_HEAD_VIEWS = ("qkv", "self-attention")
"""Views that show one head, by default the first."""


def attention_data(view: str, trace: Trace, options: FigureOptions) -> dict[str, Any]:
    """Data of an attention figure for the renderer: `AttentionData` of frontend/src/figures/types.ts."""
    at = attention_name(trace, options.at)
    match = ATTENTION_NAME.fullmatch(at)
    assert match, at
    stack, layer, kind = match.groups()
    queries = source_tokens(trace) if stack == "encoder" else target_tokens(trace)
    keys = queries if kind == "self" else source_tokens(trace)
    config, positions = trace.config, position_kind(trace.config)
    head = checked_head(trace, options.head)
    about = {
        "place": {"stack": stack, "layer": int(layer), "kind": kind},
        "heads": config.n_heads,
        "head": 0 if head is None and view in SINGLE_HEAD_VIEWS else head,
        "token": None if options.token is None else position_of(options.token, [token["text"] for token in queries]),
        "queries": queries,
        "keys": keys,
        "scaled": config.scale_scores,
        "biased": positions.biases and kind == "self",
        "rotated": positions.rotates and kind == "self",
        "linearBias": config.linear_bias,
        "causal": stack == "decoder" and kind == "self",
    }
    return about | {name: _part(trace, at, kind, name) for name in VIEW_PARTS[view]}


def attention_name(trace: Trace, at: str | None) -> str:
    """Name of the attention to draw, after checking that it exists; by default the encoder's last."""
    if at is None:
        return f"encoder.layers.{trace.config.encoder_layers - 1}.self_attention"
    if at in trace.attentions:
        return at
    if trace.config.decoder_ssru and re.fullmatch(r"decoder\.layers\.\d+\.self_attention", at):
        raise InputError(
            f"There is no {at}: this decoder keeps its target in a recurrent unit (SSRU) and has no self-attention. "
            "Draw a cross-attention instead, or the view `decoding-steps`, which shows the recurrent state."
        )
    raise InputError(f"There is no attention {at!r}; there are {', '.join(trace.attentions)}.")


def checked_head(trace: Trace, head: int | None) -> int | None:
    if head is not None and head >= trace.config.n_heads:
        raise InputError(f"Head {head} is out of range (0 to {trace.config.n_heads - 1}).")
    return head


def _part(trace: Trace, at: str, kind: str, name: str) -> Any:
    config = trace.config
    match name:
        case "input" | "output":
            return matrix(trace[f"{at}.{name}"])
        case "memory":
            return matrix(trace[f"{at}.input" if kind == "self" else "memory"])
        case "weights":
            return matrices(visible_weights(trace, at))
        case "share":
            return [rounded_number(norm) for norm in trace[f"{at}.heads_out_norm"].double().mean(1).tolist()]
        case "wo":
            projection = trace.parameter(f"{at}.out_proj.weight")
            return weight(None if projection is None else projection.T, config.n_heads * config.d_head, config.d_model)
        case "wq" | "wk" | "wv":
            return _projections(trace, f"{at}.{name[1]}_proj.weight")
    return matrices(trace[f"{at}.{name}"])


def _projections(trace: Trace, name: str) -> list[Table]:
    """W_Q, W_K or W_V as in the paper: one D × K matrix per head."""
    parameter, heads, shape = trace.parameter(name), trace.config.n_heads, (trace.config.d_model, trace.config.d_head)
    if parameter is None:
        return [weight(None, *shape)] * heads
    return [weight(head.T, *shape) for head in parameter.unflatten(0, (heads, -1))]


def visible_weights(trace: Trace, at: str) -> Tensor:
    """The attention weights, with NaN at masked positions, to tell them from weights of 0."""
    weights = trace[f"{at}.weights"].double()
    if f"{at}.scores" in trace:
        hidden = trace[f"{at}.scores"] == -torch.inf
    elif trace.axes(f"{at}.weights")[1:] == ("T", "T"):  # saved without scores: the causal mask is known
        hidden = torch.ones(weights.shape[1:], dtype=torch.bool).triu(1).expand_as(weights)
    else:
        return weights
    return weights.masked_fill(hidden.to(weights.device), torch.nan)
