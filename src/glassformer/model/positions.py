"""Position encodings: sinusoidal or learned tables added to the embeddings, rotations of q and k, or a bias on scores.

`KINDS` has one object per kind of positions; everything that depends on the kind asks it. Fixed tables are pure
functions with a small cache: a model has no buffers, so none can be saved or cast wrongly.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.model.config import ModelConfig, PositionName
from glassformer.model.dims import Float, Int, Tensor
from glassformer.model.tap import Tap

Layout = Callable[[int, int], Tensor]
"""Function that makes a table of sinusoids from its number of rows and its width."""


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
        table = cached_table(sinusoids, first + length, self.d_model, self.layout, like.dtype, like.device)
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
        device = self.weight.device
        distance = torch.arange(keys, device=device) - torch.arange(first, first + queries, device=device)[:, None]
        bucket = distance_bucket(distance, len(self.weight), self.max_distance, self.bidirectional)
        return self.output(self.weight[bucket].permute(2, 0, 1))


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


def sinusoids(rows: int, width: int, layout: Layout, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Table of the sinusoidal position vectors, computed in float64 and rounded once."""
    return layout(rows, width).to(device, dtype)


def interleaved(rows: int, width: int) -> Tensor:
    """Sines and cosines in turn."""
    angles = _angles(rows, 10000.0, _exponents(width))
    table = angles.new_empty(rows, width)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()[:, : width // 2]  # an odd width ends with a sine
    return table


def halves(rows: int, width: int) -> Tensor:
    """All sines, then all cosines."""
    angles = _angles(rows, 10000.0, _exponents(width))
    return torch.cat((angles.sin(), angles.cos()[:, : width // 2]), dim=1)


def fairseq_halves(rows: int, width: int) -> Tensor:
    """All sines, then all cosines, the slowest exactly 10000 times slower than the fastest."""
    half = width // 2
    exponent = torch.arange(half, dtype=torch.float64, device="cpu") / (half - 1)
    angles = _angles(rows, 10000.0, exponent)
    return torch.cat((angles.sin(), angles.cos(), angles.new_zeros(rows, width % 2)), dim=1)


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


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class PositionKind:
    """A kind of positions: what it adds to the embeddings, adds to the scores of self-attention, or rotates."""

    explanation: str
    """A sentence about it, for the explorer."""
    options: tuple[str, ...]
    """The options of `ModelConfig` that it has and not every other kind."""
    problems: Callable[[ModelConfig], Iterable[str]]
    """Sentences about inconsistent options."""
    max_tokens: Callable[[ModelConfig], int | None] = _nothing
    """Maximum length of a sentence in tokens; None if unlimited."""
    added: Callable[[ModelConfig, str], SinusoidalPositions | LearnedPositions | None] = _nothing
    """The module whose vectors are added to the embeddings; the last argument is the letter of the length."""
    stack_bias: Callable[[ModelConfig, bool, str], RelativeBias | None] = _nothing
    """The module whose bias is added to the scores in every layer of a stack, bidirectional or not."""
    layer_bias: Callable[[ModelConfig, bool, str], RelativeBias | None] = _nothing
    """The same for a single layer."""
    rotation: Callable[[ModelConfig, int, int, Tensor], Tensor | None] = _nothing
    """cos and sin of the angles by which q and k are rotated, from the first position and the number of positions."""

    @property
    def adds(self) -> bool:
        return self.added is not _nothing

    @property
    def biases(self) -> bool:
        return self.stack_bias is not _nothing or self.layer_bias is not _nothing

    @property
    def rotates(self) -> bool:
        return self.rotation is not _nothing


def _sinusoidal(layout: Layout, explanation: str, min_width: int = 1) -> PositionKind:
    def problems(config: ModelConfig) -> Iterator[str]:
        if config.d_model < min_width:
            yield (
                f"positions = {config.positions!r} needs at least two frequencies, so d_model = {config.d_model} must "
                f"be at least {min_width}."
            )

    added = functools.partial(SinusoidalPositions, layout=layout)
    return PositionKind(explanation, ("position_offset",), problems, added=added)


def _learned_problems(config: ModelConfig) -> Iterator[str]:
    if config.position_offset >= config.max_positions:
        yield (
            f"position_offset = {config.position_offset} leaves no rows of max_positions = {config.max_positions} for "
            "a sentence."
        )


def _rotary_problems(config: ModelConfig) -> Iterator[str]:
    if config.d_head % 2:
        yield f"Rotary positions rotate pairs of columns, so d_head = {config.d_head} must be even."


def _relative_problems(config: ModelConfig) -> Iterator[str]:
    if config.decoder_ssru:
        yield f"positions = {config.positions!r} needs self-attention in the decoder, and decoder_ssru replaces it."
    if config.relative_buckets % 4:
        yield (
            f"relative_buckets = {config.relative_buckets} must be a multiple of 4: one half for each direction, and "
            "half of those for the nearest distances."
        )
    if config.relative_max_distance <= config.relative_buckets // 2:
        yield (
            f"relative_max_distance = {config.relative_max_distance} must be greater than half of relative_buckets = "
            f"{config.relative_buckets}."
        )


KINDS: dict[PositionName, PositionKind] = {
    "learned": PositionKind(
        "Positions: a learned table.",
        ("max_positions", "position_offset"),
        _learned_problems,
        max_tokens=lambda config: config.max_positions - config.position_offset,
        added=LearnedPositions,
    ),
    "sinusoidal": _sinusoidal(interleaved, "Positions: sines and cosines alternate, as in the paper."),
    "sinusoidal-halves": _sinusoidal(halves, "Positions: all sines, then all cosines (as in Hugging Face’s Marian)."),
    "sinusoidal-fairseq": _sinusoidal(
        fairseq_halves, "Positions: all sines, then all cosines (as in the authors’ code and fairseq).", min_width=4
    ),
    "rotary": PositionKind(
        "Positions: queries and keys are rotated by their position, inside attention.",
        ("rotary_base",),
        _rotary_problems,
        rotation=lambda config, first, length, like: rotations(first, length, config.d_head, config.rotary_base, like),
    ),
    "relative": PositionKind(
        "Positions: a bias on the scores by distance, inside attention.",
        ("relative_buckets", "relative_max_distance"),
        _relative_problems,
        stack_bias=RelativeBias,
    ),
    "relative-per-layer": PositionKind(
        "Positions: a bias on the scores by distance, inside attention; each layer has its own.",
        ("relative_buckets", "relative_max_distance"),
        _relative_problems,
        layer_bias=RelativeBias,
    ),
}


def position_kind(config: ModelConfig) -> PositionKind:
    """The kind of positions of a model."""
    return KINDS[config.positions]


def position_problems(config: ModelConfig) -> Iterator[str]:
    """Sentences about options that are inconsistent with the kind of positions, or have no effect with it."""
    kind = position_kind(config)
    yield from kind.problems(config)
    for name in dict.fromkeys(name for other in KINDS.values() for name in other.options):
        if name not in kind.options and getattr(config, name) != type(config).model_fields[name].default:
            names = ", ".join(repr(other) for other, with_option in KINDS.items() if name in with_option.options)
            yield (
                f"{name} = {getattr(config, name)} has no effect with positions = {config.positions!r}; "
                f"it applies only to {names}."
            )
