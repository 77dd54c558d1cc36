"""Parts of tensors: slices of rows and columns, and summaries by block."""

import re
from itertools import pairwise

import torch

from glassformer.model.dims import Float, Tensor
from glassformer.server.http_errors import HTTPError

RANGE = re.compile(r"([0-9]{0,9})(:([0-9]{0,9}))?")
SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
MAX_SUMMARY_SIZE = 1024
"""Maximum number of rows or columns of a summary."""


def cut(tensor: Tensor, rows: str | None, columns: str | None, max_bytes: int) -> Tensor:
    """The requested part of a tensor, if it has at most `max_bytes` as float32.

    `rows` are along the axis before the last, `columns` along the last: "3", "0:8", "8:".
    """
    if columns is not None:
        tensor = tensor[..., _slice("cols", columns, tensor, -1)]
    if rows is not None:
        tensor = tensor[..., _slice("rows", rows, tensor, -2), :] if tensor.dim() > 1 else _no_rows(tensor)
    if tensor.numel() * 4 > max_bytes:
        raise HTTPError(
            413,
            f"The tensor has {tensor.numel():,} values; at most {max_bytes // 4:,} are sent at once. Select a part "
            "with rows= and cols=, or request a summary with to=.",
        )
    return tensor


def summary(weight: Tensor, size: str) -> Tensor:
    """A matrix reduced to a smaller one: each cell is the value of its block that is farthest from 0."""
    match = SIZE.fullmatch(size)
    if match is None or not all(1 <= int(number) <= MAX_SUMMARY_SIZE for number in match.groups()):
        raise HTTPError(
            422,
            f"to = {size!r} is not a valid size. Expected for example 128x128, at most "
            f"{MAX_SUMMARY_SIZE}x{MAX_SUMMARY_SIZE}.",
        )
    table = weight.detach().reshape(-1, weight.shape[-1]) if weight.dim() > 1 else weight.detach()[None]
    rows, columns = (min(int(number), length) for number, length in zip(match.groups(), table.shape, strict=True))
    bands = [_farthest(table[first:last], 0) for first, last in _blocks(table.shape[0], rows)]
    reduced = torch.stack(bands)  # band by band: a copy of a large table would take its memory again
    return torch.stack(
        [_farthest(reduced[:, first:last], 1) for first, last in _blocks(reduced.shape[1], columns)], dim=1
    )


def _farthest(block: Float[Tensor, "n m"], dim: int) -> Tensor:
    high, low = block.amax(dim), block.amin(dim)
    return torch.where(high >= -low, high, low)


def _blocks(length: int, count: int) -> list[tuple[int, int]]:
    edges = [i * length // count for i in range(count + 1)]
    return list(pairwise(edges))


def _slice(name: str, text: str, tensor: Tensor, axis: int) -> slice:
    match = RANGE.fullmatch(text)
    size = tensor.shape[axis] if tensor.dim() else 0
    if match is None or not (match[1] or match[2]):
        raise HTTPError(422, f"{name} = {text!r} is neither an index nor a range such as 0:8.")
    first = int(match[1] or 0)
    last = first + 1 if match[2] is None else int(match[3] or size)
    if not first < last <= size:
        raise HTTPError(422, f"{name} = {text!r} is out of range: there are {size} {name}, counted from 0.")
    return slice(first, last)


def _no_rows(tensor: Tensor) -> Tensor:
    raise HTTPError(422, f"A {tensor.dim()}-dimensional tensor has no rows. Use cols= only.")
