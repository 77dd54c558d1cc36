"""Tensors as the renderer takes them: rows of numbers with four digits. What is masked is null."""

from math import isfinite
from typing import Any

import torch

from glassformer.model.dims import Tensor

DIGITS = 4
WIDEST = 128
"""Rows and columns of weights that are handed over; of larger ones, means of bins."""

Table = dict[str, Any]
"""A `Matrix` of frontend/src/figures/types.ts."""


def matrix(tensor: Tensor) -> Table:
    """A matrix with all its numbers."""
    if tensor.dim() != 2:
        raise AssertionError(f"a matrix has two axes, and this one {tuple(tensor.shape)}")
    rows, cols = tensor.shape
    return {"rows": rows, "cols": cols, "values": rounded(tensor)}


def matrices(tensor: Tensor) -> list[Table]:
    """One matrix a head."""
    return [matrix(one) for one in tensor]


def weight(tensor: Tensor | None, rows: int, cols: int) -> Table:
    """A weight, which may not have been saved, and may be large: then the means of its bins."""
    if tensor is None:
        return {"rows": rows, "cols": cols}
    per_row, per_col = (-(-size // WIDEST) for size in (rows, cols))
    if per_row == per_col == 1:
        return matrix(tensor)
    binned = _means(_means(tensor.double(), per_row).T, per_col).T
    return {"rows": rows, "cols": cols, "perRow": per_row, "perCol": per_col, "values": rounded(binned)}


def _means(tensor: Tensor, together: int) -> Tensor:
    return torch.stack([rows.mean(0) for rows in tensor.split(together)])


def rounded(tensor: Tensor) -> list[float | None]:
    """Row by row, with four digits each: what is seen does not need more, and what differs less is the same."""
    values = tensor.detach().double().flatten().tolist()
    return [rounded_number(value) if isfinite(value) else None for value in values]


def rounded_number(number: float) -> float:
    """With four digits, and without a minus before 0."""
    return float(f"{number:.{DIGITS}g}") + 0.0
