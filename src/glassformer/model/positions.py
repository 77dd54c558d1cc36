"""Position encodings as PyTorch modules: sinusoidal or learned tables added to the embeddings, rotations, biases.

Which of them a model has is in `position_kinds`. Fixed tables come from there, with a small cache: a model has no
buffers, so none can be saved or cast wrongly.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Float, Tensor
from glassformer.model.position_kinds import Floats, Layout, distance_bucket, position_kind
from glassformer.model.tap import Tap


class SinusoidalPositions(nn.Module):
    """Sinusoidal positions: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same) (section 3.5)."""

    def __init__(self, config: ModelConfig, length: str, layout: Layout) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.offset = config.position_offset
        self.layout = layout
        self.output = Tap(f"{length} D")

    def forward(self, first: int, length: int, like: Tensor) -> Float[Tensor, "{length} D"]:
        """The position vectors of first, first + 1, ...; dtype and device are those of `like`."""
        first = first + self.offset
        table = cached_table(self.layout, first + length, like, self.d_model)
        return self.output(table[first : first + length])


class LearnedPositions(nn.Module):
    """Learned positions: a table with one learned vector per position."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model))
        self.initial_std = config.d_model**-0.5
        self.offset = config.position_offset
        self.output = Tap(f"{length} D")

    def forward(self, first: int, length: int, like: Tensor) -> Float[Tensor, "{length} D"]:
        """The position vectors of first, first + 1, ..."""
        max_tokens = len(self.weight) - self.offset
        if first + length > max_tokens:
            raise InputError(
                f"The sentence has {first + length} tokens, but this model has learned only {max_tokens} positions: "
                "split the sentence, or train with a larger max_positions."
            )
        first = first + self.offset
        return self.output(self.weight[first : first + length])


class RelativeBias(nn.Module):
    """Relative positions: a learned bias per head and distance bucket, added to the scores (T5, arXiv:1910.10683)."""

    initial_std = 0.1

    def __init__(self, config: ModelConfig, bidirectional: bool, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.relative_buckets, config.n_heads))
        self.bidirectional = bidirectional
        self.max_distance = config.relative_max_distance
        self.output = Tap(f"H {length} {length}")

    def forward(self, first: int, queries: int, keys: int) -> Float[Tensor, "H {queries} {keys}"]:
        """The bias on the scores of queries at positions first, first + 1, ... and keys at 0, 1, ..."""
        distance = np.arange(keys) - np.arange(first, first + queries)[:, None]
        bucket = distance_bucket(distance, len(self.weight), self.max_distance, self.bidirectional)
        return self.output(self.weight[torch.from_numpy(bucket).to(self.weight.device)].permute(2, 0, 1))


BIASES: dict[str, Callable[[ModelConfig, bool, str], Any]] = {
    "relative": RelativeBias,
    "relative-per-layer": RelativeBias,
}
"""The module of each kind with a bias."""


def added_positions(config: ModelConfig, length: str) -> SinusoidalPositions | LearnedPositions | None:
    """The module whose vectors are added to the embeddings, if any; `length`: the letter of the length."""
    kind = position_kind(config)
    if kind.layout is not None:
        return SinusoidalPositions(config, length, kind.layout)
    return LearnedPositions(config, length) if kind.learned else None


def relative_bias(
    config: ModelConfig, place: Literal["stack", "layer"], bidirectional: bool, length: str
) -> RelativeBias | None:
    """The module whose bias is added to the scores in every layer of a stack, or in one layer, if any."""
    if position_kind(config).bias != place:
        return None
    module: RelativeBias = BIASES[config.positions](config, bidirectional, length)
    return module


def rotations(config: ModelConfig, first: int, length: int, like: Tensor) -> Float[Tensor, "2 {length} K"] | None:
    """cos and sin of the rotary angles of positions first, first + 1, ..., for `rotate`; None if nothing is rotated."""
    kind = position_kind(config)
    if kind.rotation is None:
        return None
    table = cached_table(_rotation, first + length, like, config)
    return table[:, first : first + length]


def _rotation(rows: int, config: ModelConfig) -> Floats:
    rotation = position_kind(config).rotation
    assert rotation is not None
    return rotation(config, rows)


def rotate(x: Float[Tensor, "B H M K"], rotation: Float[Tensor, "2 M K"]) -> Float[Tensor, "B H M K"]:
    """Rotate the column pairs (i, i + K/2) of each position by its angles (RoPE, arXiv:2104.09864)."""
    cos, sin = rotation
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def cached_table(make: Callable[..., Floats], rows: int, like: Tensor, *options: Any) -> Tensor:
    """A table of at least `rows` rows, from a cache; compiled code computes its own, since it cannot use the cache."""
    if torch.compiler.is_compiling():
        return torch.from_numpy(make(rows, *options)).to(like.device, like.dtype)
    rows = max(64, 1 << (rows - 1).bit_length())  # a power of two, so that it seldom changes
    return _cached(make, rows, like.dtype, like.device, *options)


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table first made while translating must also work in training
def _cached(make: Callable[..., Floats], rows: int, dtype: torch.dtype, device: torch.device, *options: Any) -> Tensor:
    return torch.from_numpy(make(rows, *options)).to(dtype).to(device)  # first the type: MPS has no float64
