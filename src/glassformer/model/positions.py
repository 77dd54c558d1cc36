"""How order enters: sine waves or a learned table added to the embeddings, rotations of q and k, or a bias on scores.

Fixed tables are pure functions, kept in a small cache: a model has no buffers, so nothing can be saved or cast wrongly.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, cast, get_args

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.model.config import ModelConfig, Waves
from glassformer.model.dims import Float, Int, Tensor
from glassformer.model.tap import Tap


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same) (section 3.5)."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.offset = config.position_offset
        self.waves = cast("Waves", config.positions)
        self.output = Tap(f"{length} D")

    def forward(self, first: int, length: int, like: Tensor) -> Float[Tensor, "{length} D"]:
        """The vectors of positions first, first + 1, ...; `like` gives type and device."""
        first = first + self.offset
        table = kept(sinusoids, first + length, self.d_model, self.waves, like.dtype, like.device)
        return self.output(table[first : first + length])


class LearnedPositions(nn.Module):
    """A table with one learned vector a position."""

    def __init__(self, config: ModelConfig, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model))
        self.offset = config.position_offset
        self.output = Tap(f"{length} D")

    def forward(self, first: int, length: int, like: Tensor) -> Float[Tensor, "{length} D"]:
        """The vectors of positions first, first + 1, ..."""
        longest = len(self.weight) - self.offset
        if first + length > longest:
            raise InputError(
                f"The sentence has {first + length} tokens, and this model has learned positions for {longest}: "
                "split the sentence, or train with a larger max_positions."
            )
        first = first + self.offset
        return self.output(self.weight[first : first + length])


class RelativeBias(nn.Module):
    """A learned number for each head and bucket of distances, added to the scores (T5, arXiv:1910.10683)."""

    def __init__(self, config: ModelConfig, both_ways: bool, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.relative_buckets, config.n_heads))
        self.both_ways = both_ways
        self.max_distance = config.relative_max_distance
        self.output = Tap(f"H {length} {length}")

    def forward(self, first: int, queries: int, keys: int) -> Float[Tensor, "H {queries} {keys}"]:
        """The bias for queries at first, first + 1, ... on keys at 0, 1, ..."""
        device = self.weight.device
        distance = torch.arange(keys, device=device) - torch.arange(first, first + queries, device=device)[:, None]
        bucket = distance_bucket(distance, len(self.weight), self.max_distance, self.both_ways)
        return self.output(self.weight[bucket].permute(2, 0, 1))


def additive_positions(config: ModelConfig, length: str) -> SinusoidalPositions | LearnedPositions | None:
    """What is added to the embeddings; None when order enters inside attention."""
    if config.positions in get_args(Waves):
        return SinusoidalPositions(config, length)
    return LearnedPositions(config, length) if config.positions == "learned" else None


def rotate(x: Float[Tensor, "B H M K"], turn: Float[Tensor, "2 M K"]) -> Float[Tensor, "B H M K"]:
    """Turn the column pairs (i, i + K/2) of each position by its angles (RoPE, arXiv:2104.09864)."""
    cos, sin = turn
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def turns(first: int, length: int, d_head: int, base: float, like: Tensor) -> Float[Tensor, "2 {length} {d_head}"]:
    """cos and sin of every angle of positions first, first + 1, ...: what `rotate` needs."""
    table = kept(rotations, first + length, d_head, base, like.dtype, like.device)
    return table[:, first : first + length]


def distance_bucket(
    distance: Int[Tensor, "Q M"], buckets: int, max_distance: int, both_ways: bool
) -> Int[Tensor, "Q M"]:
    """The bucket of key position - query position: near distances one by one, far ones on a logarithmic scale."""
    side = torch.zeros_like(distance)
    if both_ways:
        buckets //= 2
        side = (distance > 0) * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)  # a decoder looks only back
    exact = buckets // 2
    scale = (buckets - exact) / math.log(max_distance / exact)
    far = exact + (torch.log(distance.clamp(min=1).float() / exact) * scale).long()
    return side + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def sinusoids(rows: int, width: int, waves: Waves, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The table of sines and cosines, computed in float64 and rounded once."""
    if waves == "sinusoidal-fairseq":
        half = width // 2
        exponent = torch.arange(half, dtype=torch.float64, device="cpu") / (half - 1)
        angles = _angles(rows, 10000.0, exponent)
        odd = angles.new_zeros(rows, width % 2)
        return torch.cat((angles.sin(), angles.cos(), odd), dim=1).to(device, dtype)
    angles = _angles(rows, 10000.0, _evenly(width))
    sin, cos = angles.sin(), angles.cos()[:, : width // 2]  # an odd width has one sine more
    if waves == "sinusoidal-halves":
        return torch.cat((sin, cos), dim=1).to(device, dtype)
    table = sin.new_empty(rows, width)
    table[:, 0::2], table[:, 1::2] = sin, cos
    return table.to(device, dtype)


def rotations(rows: int, d_head: int, base: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """cos and sin of every rotary angle, both halves of a head alike."""
    angles = _angles(rows, base, _evenly(d_head)).repeat(1, 2)
    return torch.stack((angles.cos(), angles.sin())).to(device, dtype)


def _angles(rows: int, base: float, exponent: Tensor) -> Tensor:
    """pos / base^exponent, on the CPU whatever the device: not every one has float64."""
    position = torch.arange(rows, dtype=torch.float64, device="cpu")
    return position[:, None] / base**exponent


def _evenly(width: int) -> Tensor:
    """2i / width (section 3.5)."""
    return torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width


def kept(make: Callable[..., Tensor], rows: int, *options: Any) -> Tensor:
    """A table of at least so many rows, made once; compiled code makes its own, since it cannot ask the cache."""
    if torch.compiler.is_compiling():
        return make(rows, *options)
    return _made(make, max(64, 1 << (rows - 1).bit_length()), *options)  # a size that seldom changes


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table first asked for while translating must still serve in training
def _made(make: Callable[..., Tensor], rows: int, *options: Any) -> Tensor:
    return make(rows, *options)
