"""Tensors in the figure renderer's format: rows of numbers with four significant digits, null where masked."""

from math import isfinite
from typing import Any

import torch

from glassformer.model.dims import Tensor

SIGNIFICANT_DIGITS = 4
MAX_WEIGHT_CELLS = 128
"""Maximum rows and columns of a weight matrix in a figure; larger ones are reduced to means of bins."""

Table = dict[str, Any]
"""A matrix in the figure renderer's format: `Matrix` of frontend/src/figures/types.ts."""


def matrix(tensor: Tensor) -> Table:
    """A tensor of two axes in the renderer's format, with all its numbers."""
    if tensor.dim() != 2:
        raise AssertionError(f"a matrix has two axes; this tensor has shape {tuple(tensor.shape)}")
    rows, cols = tensor.shape
    return {"rows": rows, "cols": cols, "values": rounded(tensor)}


def matrices(tensor: Tensor) -> list[Table]:
    """A tensor of three axes in the renderer's format: one matrix per head."""
    return [matrix(head) for head in tensor]


def weight(tensor: Tensor | None, rows: int, cols: int) -> Table:
    """A weight matrix in the renderer's format: without values if not saved, as means of bins if large."""
    if tensor is None:
        return {"rows": rows, "cols": cols}
    per_row, per_col = (-(-size // MAX_WEIGHT_CELLS) for size in (rows, cols))
    if per_row == per_col == 1:
        return matrix(tensor)
    binned = _means(_means(tensor.double(), per_row).T, per_col).T
    return {"rows": rows, "cols": cols, "perRow": per_row, "perCol": per_col, "values": rounded(binned)}


def _means(tensor: Tensor, rows_per_bin: int) -> Tensor:
    return torch.stack([rows.mean(0) for rows in tensor.split(rows_per_bin)])


def rounded(tensor: Tensor) -> list[float | None]:
    """A tensor's numbers with four significant digits: enough to draw, and stable against rounding differences."""
    values = tensor.detach().double().flatten().tolist()
    return [rounded_number(value) if isfinite(value) else None for value in values]


def rounded_number(number: float) -> float:
    """A number with four significant digits, and 0 instead of -0."""
    return float(f"{number:.{SIGNIFICANT_DIGITS}g}") + 0.0
