"""Attention that receives its keys and values, and so never asks where they come from or when they were made.

Encoder self-attention makes them on the spot, cached self-attention one position at a time, cross-attention once
for each sentence. Knows nothing of layers, caches or text.
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
    """What attention looks at: keys to compare with, values to take from."""

    k: Float[Tensor, "B H M K"]
    v: Float[Tensor, "B H M K"]


class Attention(nn.Module):
    """softmax(q kᵀ / √K) v for H heads, concatenated, times W_O (section 3.2)."""

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

    def keys_values(self, memory: Float[Tensor, "B M D"], turn: Float[Tensor, "2 M K"] | None = None) -> KeyValues:
        """k = memory W_K, v = memory W_V, split into heads: with this attention's own matrices."""
        k = split_heads(self.k_proj(memory), self.n_heads)
        v = split_heads(self.v_proj(memory), self.n_heads)
        return KeyValues(self.k(k if turn is None else rotate(k, turn)), self.v(v))

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        k: Float[Tensor, "B H M K"],
        v: Float[Tensor, "B H M K"],
        visible: Bool[Tensor, "#B #H #Q M"] | None,
        bias: Float[Tensor, "H Q M"] | None = None,
        turn: Float[Tensor, "2 Q K"] | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """What each position of x finds in v. `visible` None means everything may be looked at."""
        q = split_heads(self.q_proj(self.input(x)), self.n_heads)
        q = self.q(q if turn is None else rotate(q, turn))
        context = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=_mask(visible, bias),
            dropout_p=self.dropout if self.training else 0.0,
            scale=self.scale,
        )
        if self.scores.heard or self.weights.heard:
            changed = self._in_the_open(q, k, v, visible, bias)
            context = context if changed is None else changed
        return self.output(self._join(self.context(context)))

    def _in_the_open(
        self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, bias: Tensor | None
    ) -> Tensor | None:
        """The same, step by step, for whoever listens; the context if they put something else, so that listening
        alone changes no bit."""
        scores = q @ k.transpose(-2, -1) * self.scale
        mask = _mask(visible, bias)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
        put_scores = self.scores(scores)
        if visible is None:
            weights = put_scores.softmax(dim=-1)
        else:  # a row that sees nothing is 0, not 0/0, and its gradient too
            blind = ~visible.any(dim=-1, keepdim=True)
            weights = put_scores.masked_fill(blind, 0).softmax(dim=-1).masked_fill(~visible, 0)
        put_weights = self.weights(weights)
        if put_scores is scores and put_weights is weights:
            return None
        return dropout(put_weights, self.dropout, self.training) @ v

    def _join(self, context: Tensor) -> Tensor:
        """Concatenate the heads and multiply by W_O; or, where a listener puts something else, add up the shares."""
        if self.heads_out.heard:
            own_columns = self.out_proj.weight.unflatten(1, (self.n_heads, -1))  # head h's share of W_O
            shares = torch.einsum("bhqk,dhk->bhqd", context, own_columns)
            put = self.heads_out(shares)
            if put is not shares:
                return put.sum(dim=1) if self.out_proj.bias is None else put.sum(dim=1) + self.out_proj.bias
        return self.out_proj(merge_heads(context))


def split_heads(x: Float[Tensor, "B M HK"], n_heads: int) -> Float[Tensor, "B {n_heads} M K"]:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H M K"]) -> Float[Tensor, "B M HK"]:
    return x.transpose(1, 2).flatten(2)


def check_mask(visible: Tensor | None) -> None:
    """A mask of 0.0 and 1.0 would be added to the scores without a word; so only booleans come in."""
    if visible is not None and visible.dtype is not torch.bool:
        raise InputError(
            f"A mask must be boolean, True where a position may be looked at; this one is {visible.dtype}. "
            "Write `mask.bool()` if its ones mean visible, `mask == 0` if it is added to scores."
        )


def _mask(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    check_mask(visible)
    if bias is None:
        return visible
    return bias if visible is None else bias.masked_fill(~visible, -math.inf)
