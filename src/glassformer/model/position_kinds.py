"""Kinds of positions: which tables are added to the embeddings, which biases to the scores, which angles q and k take.

`KINDS` has one object per kind; everything that depends on the kind asks it. Tables are NumPy arrays, computed in
float64 and rounded once: the C engine and the PyTorch modules (`positions`) have the same numbers. Without PyTorch.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.model.config import ModelConfig, PositionName

Floats = NDArray[np.floating[Any]]
Layout = Callable[[int, int], Floats]
"""Function that makes a table of sinusoids from its number of rows and its width."""
BiasTable = Callable[[ModelConfig, Floats | None, NDArray[np.int64], bool], Floats]
"""Function that makes each head's bias (H, ...) from weights, distances (key - query position), and directions."""


def interleaved(rows: int, width: int) -> Floats:
    """Sines and cosines in turn."""
    angles = _angles(rows, 10000.0, _exponents(width))
    table = np.empty((rows, width))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)[:, : width // 2]  # an odd width ends with a sine
    return table


def halves(rows: int, width: int) -> Floats:
    """All sines, then all cosines."""
    angles = _angles(rows, 10000.0, _exponents(width))
    return np.concatenate((np.sin(angles), np.cos(angles)[:, : width // 2]), axis=1)


def fairseq_halves(rows: int, width: int) -> Floats:
    """All sines, then all cosines, the slowest exactly 10000 times slower than the fastest."""
    half = width // 2
    angles = _angles(rows, 10000.0, np.arange(half, dtype=np.float64) / (half - 1))
    return np.concatenate((np.sin(angles), np.cos(angles), np.zeros((rows, width % 2))), axis=1)


def rotation_table(rows: int, d_head: int, base: float) -> Floats:
    """cos and sin (2, rows, K) of every rotary angle; both halves of a head have the same angles."""
    angles = _angles(rows, base, _exponents(d_head))
    return np.tile(np.stack((np.cos(angles), np.sin(angles))), 2)


def _angles(rows: int, base: float, exponent: Floats) -> Floats:
    """Angles pos / base^exponent of all positions."""
    return np.arange(rows, dtype=np.float64)[:, None] / base**exponent


def _exponents(width: int) -> Floats:
    """Exponents 2i / width of the angles (section 3.5)."""
    return np.arange(0, width, 2, dtype=np.float64) / width  # torch.compile would divide integers in float32


def distance_bucket(
    distance: NDArray[np.int64], buckets: int, max_distance: int, bidirectional: bool
) -> NDArray[np.int64]:
    """Bucket of each distance (key - query position): one per near distance, logarithmically spaced for far ones."""
    side = np.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        side = (distance > 0) * buckets
        distance = abs(distance)
    else:
        distance = np.maximum(-distance, 0)  # a decoder sees only earlier keys
    exact = buckets // 2
    scale = np.float32((buckets - exact) / math.log(max_distance / exact))
    ratio = np.maximum(distance, 1).astype(np.float32) / np.float32(exact)
    # As T5 computes it in float32; the logarithm is rounded once, so that it is the same on every machine.
    far = exact + (np.log(ratio.astype(np.float64)).astype(np.float32) * scale).astype(np.int64)
    return side + np.where(distance < exact, distance, np.minimum(far, buckets - 1))


def bucket_biases(
    config: ModelConfig, weight: Floats | None, distance: NDArray[np.int64], bidirectional: bool
) -> Floats:
    """T5's biases: one learned number per head and distance bucket (arXiv:1910.10683)."""
    assert weight is not None
    bucket = distance_bucket(distance, len(weight), config.relative_max_distance, bidirectional)
    return np.moveaxis(weight[bucket], -1, 0)


def _unlimited(config: ModelConfig) -> None:
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
    max_tokens: Callable[[ModelConfig], int | None] = _unlimited
    """Maximum length of a sentence in tokens; None if unlimited."""
    layout: Layout | None = None
    """The fixed table whose rows are added to the embeddings, if there is one."""
    learned: bool = False
    """Whether the rows of a learned table are added to the embeddings."""
    bias: Literal["stack", "layer"] | None = None
    """Whether all layers of a stack add one bias to the scores, or each layer its own."""
    bias_table: BiasTable = bucket_biases
    rotation: Callable[[ModelConfig, int], Floats] | None = None
    """cos and sin (2, rows, K) of the angles by which q and k are rotated, for this number of positions."""

    @property
    def adds(self) -> bool:
        return self.layout is not None or self.learned

    @property
    def biases(self) -> bool:
        return self.bias is not None

    @property
    def rotates(self) -> bool:
        return self.rotation is not None


def _sinusoidal(layout: Layout, explanation: str, min_width: int = 1) -> PositionKind:
    def problems(config: ModelConfig) -> Iterator[str]:
        if config.d_model < min_width:
            yield (
                f"positions = {config.positions!r} needs at least two frequencies, so d_model = {config.d_model} must "
                f"be at least {min_width}."
            )

    return PositionKind(explanation, ("position_offset",), problems, layout=layout)


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
        learned=True,
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
        rotation=lambda config, rows: rotation_table(rows, config.d_head, config.rotary_base),
    ),
    "relative": PositionKind(
        "Positions: a bias on the scores by distance, inside attention.",
        ("relative_buckets", "relative_max_distance"),
        _relative_problems,
        bias="stack",
    ),
    "relative-per-layer": PositionKind(
        "Positions: a bias on the scores by distance, inside attention; each layer has its own.",
        ("relative_buckets", "relative_max_distance"),
        _relative_problems,
        bias="layer",
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
