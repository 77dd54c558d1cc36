"""Norms, feed-forward, recurrence, and the encoder and decoder layers.

`DecoderLayer` shows whose W_K and W_V cross-attention uses. Independent of embeddings, stacks and decoding loops.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.model.attention import Attention, KeyValues
from glassformer.model.config import ModelConfig
from glassformer.model.decoder_state import INITIAL_CAPACITY, KVCache, Past, RecurrentState
from glassformer.model.dims import Bool, Float, Tensor
from glassformer.model.dropout import dropout
from glassformer.model.positions import relative_bias
from glassformer.model.tap import Tap

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class Norm(nn.Module):
    """LayerNorm, (x - mean) / √(variance + ε) · weight + bias, or RMSNorm, x / √(mean of x² + ε) · weight."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model)) if config.norm == "layer" else None
        self.eps = config.norm_eps
        self.output = Tap(f"B {length} D")

    def forward(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        if self.bias is None:
            return self.output(F.rms_norm(x, self.weight.shape, self.weight, self.eps))
        return self.output(F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps))


class AddNorm(Norm):
    """Residual connection and norm of a sub-layer f: norm(x + f(x)) (section 3.1), or x + f(norm(x)) for pre-norm."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__(config, length)
        self.norm_first = config.norm_first
        self.dropout = config.dropout
        self.residual = Tap(f"B {length} D")

    def before(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """The input of the sub-layer: x, normalised first for pre-norm."""
        return self(x) if self.norm_first else x

    def after(self, x: Float[Tensor, "B Q D"], y: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """The output of residual connection and norm, from the residual input x and the sub-layer's output y."""
        x = self.residual(x + dropout(y, self.dropout, self.training))
        return x if self.norm_first else self(x)


class FeedForward(nn.Module):
    """Feed-forward act(x W₁ + b₁) W₂ + b₂ (section 3.3); gated: (act(x W_gate) * (x W₁)) W₂ (arXiv:2002.05202)."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.up_proj = nn.Linear(config.d_model, config.d_ff, bias=config.linear_bias)
        self.gate_proj = nn.Linear(config.d_model, config.d_ff, bias=config.linear_bias) if config.gated else None
        self.down_proj = nn.Linear(config.d_ff, config.d_model, bias=config.linear_bias)
        self.activation = config.activation
        self.dropout = config.activation_dropout

        self.input = Tap(f"B {length} D")
        self.hidden = Tap(f"B {length} F")
        self.output = Tap(f"B {length} D")

    def forward(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        x = self.input(x)
        act, up = ACTIVATIONS[self.activation], self.up_proj(x)
        hidden = act(up) if self.gate_proj is None else act(self.gate_proj(x)) * up
        hidden = dropout(self.hidden(hidden), self.dropout, self.training)
        return self.output(self.down_proj(hidden))


class Recurrence(nn.Module):
    """Simpler simple recurrent unit: c = f * c_before + (1 - f) * (x W), f = σ(x W_f + b_f); its output is relu(c).

    One state vector for the target so far instead of keys and values per position (SSRU: Kim et al., WNGT 2019).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.candidate_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.forget_proj = nn.Linear(config.d_model, config.d_model)

        self.input = Tap("B T D")
        self.candidate = Tap("B T D")
        self.forget = Tap("B T D")
        self.cell = Tap("B T D")
        self.output = Tap("B T D")

    def forward(self, x: Float[Tensor, "B T D"], past: RecurrentState) -> Float[Tensor, "B T D"]:
        """Recurrence over x, the whole target or its newest tokens; `past`, the state before x, is updated in place."""
        x = self.input(x)
        candidate = self.candidate(self.candidate_proj(x))
        forget = self.forget(self.forget_proj(x).sigmoid())
        cell = torch.zeros_like(candidate[:, 0]) if past.cell is None else past.cell
        cells = []
        for gate, new in zip(forget.unbind(1), ((1 - forget) * candidate).unbind(1), strict=True):
            cell = gate * cell + new
            cells.append(cell)
        past.length, past.cell = past.length + len(cells), cell
        return self.output(F.relu(self.cell(torch.stack(cells, dim=1))))


class EncoderLayer(nn.Module):
    """Encoder layer: self-attention, then feed-forward, each with residual connection and norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = Attention(config, queries="S", memory="S")
        self.self_attention_norm = AddNorm(config, "S")
        self.feed_forward = FeedForward(config, "S")
        self.feed_forward_norm = AddNorm(config, "S")
        self.relative_bias = relative_bias(config, "layer", True, "S")
        self.hidden = Tap("B S D")

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        visible: Bool[Tensor, "B 1 1 S"],
        bias: Float[Tensor, "H S S"] | None = None,
        rotation: Float[Tensor, "2 S K"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        y = self.self_attention_norm.before(x)
        y = self.self_attention(y, *self.self_attention.keys_values(y, rotation), visible, bias, rotation)
        x = self.self_attention_norm.after(x, y)

        y = self.feed_forward(self.feed_forward_norm.before(x))
        return self.hidden(self.feed_forward_norm.after(x, y))


class DecoderLayer(nn.Module):
    """Decoder layer: self-attention over the target so far (or a recurrence), cross-attention, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.recurrent = config.decoder_ssru
        if self.recurrent:
            self.recurrence = Recurrence(config)
            self.recurrence_norm = AddNorm(config, "T")
        else:
            self.self_attention = Attention(config, queries="T", memory="T")
            self.self_attention_norm = AddNorm(config, "T")
        self.cross_attention = Attention(config, queries="T", memory="S")
        self.cross_attention_norm = AddNorm(config, "T")
        self.feed_forward = FeedForward(config, "T")
        self.feed_forward_norm = AddNorm(config, "T")
        self.relative_bias = relative_bias(config, "layer", False, "T")
        self.hidden = Tap("B T D")

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        source: KeyValues,
        source_visible: Bool[Tensor, "B 1 1 S"],
        target_visible: Bool[Tensor, "1 1 T M"] | None,
        bias: Float[Tensor, "H T M"] | None = None,
        rotation: Float[Tensor, "2 T K"] | None = None,
        past: Past | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The layer's output for x, the whole target or its newest tokens, with the state of earlier ones in `past`.

        `source` is this layer's own K and V of the encoder's output: the same for every target position.
        """
        if self.recurrent:
            past = past if isinstance(past, RecurrentState) else RecurrentState()
            y = self.recurrence(self.recurrence_norm.before(x), past)
            x = self.recurrence_norm.after(x, y)
        else:
            y = self.self_attention_norm.before(x)
            keys_values = self.self_attention.keys_values(y, rotation)
            keys_values = past.extend(keys_values) if isinstance(past, KVCache) else keys_values
            y = self.self_attention(y, *keys_values, target_visible, bias, rotation)
            x = self.self_attention_norm.after(x, y)

        # Queries come from the target, keys and values from the source: made with this layer's W_Q, W_K and W_V.
        y = self.cross_attention(self.cross_attention_norm.before(x), *source, source_visible)
        x = self.cross_attention_norm.after(x, y)

        y = self.feed_forward(self.feed_forward_norm.before(x))
        return self.hidden(self.feed_forward_norm.after(x, y))

    def empty_state(self, capacity: int = INITIAL_CAPACITY) -> Past:
        """The state of this layer before the first position, with memory for some positions."""
        return RecurrentState() if self.recurrent else KVCache(capacity)
