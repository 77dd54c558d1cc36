"""Eight-bit weights in a file: each row of a matrix as int8 with one float32 scale. Read back as float32. No PyTorch.

A scale has at most 16 significant bits, so the product with an int8 is a float32 number: nothing is rounded when the
weights are read, and every language and processor gets the same numbers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import DirectoryError
from glassformer.model.saved_tensor import SavedTensor, rounded

SCALE = ".scale"
"""A matrix's name with this suffix is the name of its rows' scales."""
MAX_LEVEL = 127
DROPPED_BITS = 8
"""Bits that a scale has fewer than float32's 24."""


def to_eight_bits(tensors: Mapping[str, SavedTensor]) -> dict[str, SavedTensor]:
    """Matrices as int8 with the scales of their rows, everything else as float32."""
    stored = {}
    for name, tensor in tensors.items():
        values = rounded(tensor.values, "float32")
        if values.ndim != 2:
            stored[name] = SavedTensor(values, "float32")
            continue
        scales = _scales(values)
        with np.errstate(over="ignore", invalid="ignore"):
            levels = np.divide(values, scales[:, None], where=scales[:, None] > 0, out=np.zeros_like(values)).round()
            if not np.isfinite(levels * scales[:, None]).all():
                raise DirectoryError(f"{name} has numbers too large for eight bits, or not finite.")
        stored |= {name: SavedTensor(levels.astype(np.int8), "int8"), name + SCALE: SavedTensor(scales, "float32")}
    return stored


def from_eight_bits(tensors: Mapping[str, SavedTensor]) -> dict[str, SavedTensor]:
    """The tensors with every pair of an int8 matrix and its scales replaced by a float32 matrix."""
    pairs = dict(_pairs(tensors))
    scales = {name + SCALE for name in pairs}
    return {name: pairs.get(name, tensor) for name, tensor in tensors.items() if name not in scales}


def _pairs(tensors: Mapping[str, SavedTensor]) -> Iterator[tuple[str, SavedTensor]]:
    """The matrices of well-formed pairs; what is left of others is reported as a mismatch with the config."""
    for name, tensor in tensors.items():
        scale = tensors.get(name + SCALE)
        if scale is None or (tensor.dtype, scale.dtype) != ("int8", "float32"):
            continue
        if tensor.array.ndim == 2 and scale.array.shape == tensor.array.shape[:1]:
            values = tensor.array.astype(np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # an engine names such weights
                values *= scale.array[:, None]
            yield name, SavedTensor(values, "float32")


def _scales(values: NDArray[np.float32]) -> NDArray[Any]:
    """The largest magnitude of each row divided by `MAX_LEVEL`, rounded up to a number with few bits."""
    exact = np.abs(values).max(axis=1, initial=0).astype(np.float64) / MAX_LEVEL
    nearest = exact.astype(np.float32)
    above = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    step = np.uint32(1 << DROPPED_BITS)
    return ((above.view(np.uint32) + (step - 1)) & ~(step - 1)).view(np.float32)
