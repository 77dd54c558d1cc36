"""Position encodings: sinusoidal or learned tables added to the embeddings, rotations of q and k, or a bias on scores.

Fixed tables are pure functions with a small cache: a model has no buffers, so none can be saved or cast wrongly.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, cast, get_args

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.model.config import ModelConfig, SinusoidalKind
from glassformer.model.dims import Float, Int, Tensor
from glassformer.model.tap import Tap


class SinusoidalPositions(nn.Module):
    """Sinusoidal positions: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same) (section 3.5)."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.offset = config.position_offset
        self.kind = cast("SinusoidalKind", config.positions)
        self.output = Tap(f"{length} D")

    def forward(self, first: int, length: int, like: Tensor) -> Float[Tensor, "{length} D"]:
        """The position vectors of first, first + 1, ...; dtype and device are those of `like`."""
        first = first + self.offset
        table = cached_table(sinusoids, first + length, self.d_model, self.kind, like.dtype, like.device)
        return self.output(table[first : first + length])


class LearnedPositions(nn.Module):
    """Learned positions: a table with one learned vector per position."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model))
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

    def __init__(self, config: ModelConfig, bidirectional: bool, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.relative_buckets, config.n_heads))
        self.bidirectional = bidirectional
        self.max_distance = config.relative_max_distance
        self.output = Tap(f"H {length} {length}")

    def forward(self, first: int, queries: int, keys: int) -> Float[Tensor, "H {queries} {keys}"]:
        """The bias on the scores of queries at positions first, first + 1, ... and keys at 0, 1, ..."""
        device = self.weight.device
        distance = torch.arange(keys, device=device) - torch.arange(first, first + queries, device=device)[:, None]
        bucket = distance_bucket(distance, len(self.weight), self.max_distance, self.bidirectional)
        return self.output(self.weight[bucket].permute(2, 0, 1))


def additive_positions(config: ModelConfig, length: str) -> SinusoidalPositions | LearnedPositions | None:
    """The position module whose vectors are added to the embeddings; None if positions enter inside attention."""
    if config.positions in get_args(SinusoidalKind):
        return SinusoidalPositions(config, length)
    return LearnedPositions(config, length) if config.positions == "learned" else None


def rotate(x: Float[Tensor, "B H M K"], rotation: Float[Tensor, "2 M K"]) -> Float[Tensor, "B H M K"]:
    """Rotate the column pairs (i, i + K/2) of each position by its angles (RoPE, arXiv:2104.09864)."""
    cos, sin = rotation
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def rotations(first: int, length: int, d_head: int, base: float, like: Tensor) -> Float[Tensor, "2 {length} {d_head}"]:
    """cos and sin of the rotary angles of positions first, first + 1, ..., for `rotate`."""
    table = cached_table(rotation_table, first + length, d_head, base, like.dtype, like.device)
    return table[:, first : first + length]


def distance_bucket(
    distance: Int[Tensor, "Q M"], buckets: int, max_distance: int, bidirectional: bool
) -> Int[Tensor, "Q M"]:
    """Bucket of each distance (key - query position): one per near distance, logarithmically spaced for far ones."""
    side = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        side = (distance > 0) * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)  # a decoder sees only earlier keys
    exact = buckets // 2
    scale = (buckets - exact) / math.log(max_distance / exact)
    far = exact + (torch.log(distance.clamp(min=1).float() / exact) * scale).long()
    return side + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def sinusoids(rows: int, width: int, kind: SinusoidalKind, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Table of the sinusoidal position vectors, computed in float64 and rounded once."""
    if kind == "sinusoidal-fairseq":
        half = width // 2
        exponent = torch.arange(half, dtype=torch.float64, device="cpu") / (half - 1)
        angles = _angles(rows, 10000.0, exponent)
        odd = angles.new_zeros(rows, width % 2)
        return torch.cat((angles.sin(), angles.cos(), odd), dim=1).to(device, dtype)
    angles = _angles(rows, 10000.0, _exponents(width))
    sin, cos = angles.sin(), angles.cos()[:, : width // 2]  # an odd width has one more sine than cosines
    if kind == "sinusoidal-halves":
        return torch.cat((sin, cos), dim=1).to(device, dtype)
    table = sin.new_empty(rows, width)
    table[:, 0::2], table[:, 1::2] = sin, cos
    return table.to(device, dtype)


def rotation_table(rows: int, d_head: int, base: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """cos and sin of every rotary angle; both halves of a head have the same angles."""
    angles = _angles(rows, base, _exponents(d_head)).repeat(1, 2)
    return torch.stack((angles.cos(), angles.sin())).to(device, dtype)


def _angles(rows: int, base: float, exponent: Tensor) -> Tensor:
    """Angles pos / base^exponent of all positions, always on the CPU, since not every device has float64."""
    position = torch.arange(rows, dtype=torch.float64, device="cpu")
    return position[:, None] / base**exponent


def _exponents(width: int) -> Tensor:
    """Exponents 2i / width of the angles (section 3.5)."""
    return torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width


def cached_table(make: Callable[..., Tensor], rows: int, *options: Any) -> Tensor:
    """A table of at least `rows` rows, from a cache; compiled code computes its own, since it cannot use the cache."""
    if torch.compiler.is_compiling():
        return make(rows, *options)
    return _cached(make, max(64, 1 << (rows - 1).bit_length()), *options)  # a power of two, so that it seldom changes


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table first made while translating must also work in training
def _cached(make: Callable[..., Tensor], rows: int, *options: Any) -> Tensor:
    return make(rows, *options)
