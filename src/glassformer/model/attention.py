"""Multi-head attention over given keys and values, wherever they come from and whenever they were made.

Encoder self-attention makes them in the same call, cached self-attention one position at a time, cross-attention once
per sentence. Independent of layers, caches and text.
"""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Bool, Float, Tensor
from glassformer.model.dropout import dropout
from glassformer.model.positions import rotate
from glassformer.model.tap import Tap


class KeyValues(NamedTuple):
    """The keys that queries are compared with, and the values that are averaged."""

    k: Float[Tensor, "B H M K"]
    v: Float[Tensor, "B H M K"]


class Attention(nn.Module):
    """Multi-head attention: softmax(q kᵀ / √K) v for H heads, concatenated, times W_O (section 3.2)."""

    def __init__(self, config: ModelConfig, queries: str, memory: str) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.scale = 1 / math.sqrt(config.d_head) if config.scale_scores else 1.0
        self.dropout = config.attention_dropout

        heads = config.n_heads * config.d_head
        self.q_proj = nn.Linear(config.d_model, heads, bias=config.linear_bias)
        self.k_proj = nn.Linear(config.d_model, heads, bias=config.linear_bias)
        self.v_proj = nn.Linear(config.d_model, heads, bias=config.linear_bias)
        self.out_proj = nn.Linear(heads, config.d_model, bias=config.linear_bias)

        self.input = Tap(f"B {queries} D")
        self.q = Tap(f"B H {queries} K")
        self.k = Tap(f"B H {memory} K")
        self.v = Tap(f"B H {memory} K")
        self.scores = Tap(f"B H {queries} {memory}")
        self.weights = Tap(f"B H {queries} {memory}")
        self.context = Tap(f"B H {queries} K")
        self.heads_out = Tap(f"B H {queries} D")
        self.output = Tap(f"B {queries} D")

    def keys_values(self, memory: Float[Tensor, "B M D"], rotation: Float[Tensor, "2 M K"] | None = None) -> KeyValues:
        """Keys and values: k = memory W_K, v = memory W_V with this attention's own matrices, split into heads."""
        k = split_heads(self.k_proj(memory), self.n_heads)
        v = split_heads(self.v_proj(memory), self.n_heads)
        return KeyValues(self.k(k if rotation is None else rotate(k, rotation)), self.v(v))

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        k: Float[Tensor, "B H M K"],
        v: Float[Tensor, "B H M K"],
        visible: Bool[Tensor, "#B #H #Q M"] | None,
        bias: Float[Tensor, "H Q M"] | None = None,
        rotation: Float[Tensor, "2 Q K"] | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """The attention output per position of x. `visible`: which keys each query may attend to; None means all."""
        q = split_heads(self.q_proj(self.input(x)), self.n_heads)
        q = self.q(q if rotation is None else rotate(q, rotation))
        context = F.scaled_dot_product_attention(
            q, k, v, attn_mask=_mask(visible, bias), dropout_p=self.dropout if self.training else 0.0, scale=self.scale
        )
        if self.scores.has_listeners or self.weights.has_listeners:
            changed = self._explicit(q, k, v, visible, bias)
            context = context if changed is None else changed
        return self.output(self._join(self.context(context)))

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
        """Unfused attention, computed for the listeners of the taps `scores` and `weights`.

        The context if a listener replaced a value; else None, and the fused result stands, so that listening alone
        changes no bit.
        """
        scores = q @ k.transpose(-2, -1) * self.scale
        mask = _mask(visible, bias)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
        tapped_scores = self.scores(scores)
        if visible is None:
            weights = tapped_scores.softmax(dim=-1)
        else:  # a fully masked row gives 0, not 0/0, and so does its gradient
            fully_masked = ~visible.any(dim=-1, keepdim=True)
            weights = tapped_scores.masked_fill(fully_masked, 0).softmax(dim=-1).masked_fill(~visible, 0)
        tapped_weights = self.weights(weights)
        if tapped_scores is scores and tapped_weights is weights:
            return None
        return dropout(tapped_weights, self.dropout, self.training) @ v

    def _join(self, context: Tensor) -> Tensor:
        """Concatenate the heads and multiply by W_O; if a listener replaced `heads_out`, sum that over the heads."""
        if self.heads_out.has_listeners:
            head_columns = self.out_proj.weight.unflatten(1, (self.n_heads, -1))  # head h's columns of W_O
            heads_out = torch.einsum("bhqk,dhk->bhqd", context, head_columns)
            tapped = self.heads_out(heads_out)
            if tapped is not heads_out:
                return tapped.sum(dim=1) if self.out_proj.bias is None else tapped.sum(dim=1) + self.out_proj.bias
        return self.out_proj(merge_heads(context))


def split_heads(x: Float[Tensor, "B M HK"], n_heads: int) -> Float[Tensor, "B {n_heads} M K"]:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H M K"]) -> Float[Tensor, "B M HK"]:
    return x.transpose(1, 2).flatten(2)


def check_mask(visible: Tensor | None) -> None:
    """Refuse a mask that is not boolean: torch would silently add a mask of 0.0 and 1.0 to the scores."""
    if visible is not None and visible.dtype is not torch.bool:
        raise InputError(
            f"A mask must be boolean, True where a position may be attended to; this one is {visible.dtype}. "
            "Write `mask.bool()` if its ones mean visible, `mask == 0` if it is additive."
        )


def _mask(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    check_mask(visible)
    if bias is None:
        return visible
    return bias if visible is None else bias.masked_fill(~visible, -math.inf)
