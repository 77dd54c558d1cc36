"""Tensors as bytes: cut to rows and columns, summed up, halved. What is sent is what the model has."""

import re
from dataclasses import dataclass
from itertools import pairwise

import torch

from glassformer.model.dims import Float, Tensor
from glassformer.server.http_errors import HTTPError

RANGE = re.compile(r"([0-9]{0,9})(:([0-9]{0,9}))?")
SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
LARGEST = 1024
"""Rows or columns of a summary."""
LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class TensorSlice:
    """Which part of a tensor is wanted, and how."""

    rows: str | None = None
    """Of the axis before the last: "3", "0:8", "8:"."""
    columns: str | None = None
    """Of the last axis."""
    half: bool = False
    """float16 instead of float32, where the numbers fit."""


@dataclass(frozen=True)
class TensorBytes:
    """Bytes, little-endian, and what they are."""

    content: bytes
    shape: tuple[int, ...]
    dtype: str

    @property
    def headers(self) -> dict[str, str]:
        return {"x-shape": ",".join(map(str, self.shape)), "x-dtype": self.dtype}


def cut(tensor: Tensor, wanted: TensorSlice, most: int) -> TensorBytes:
    """The wanted part of a tensor, if it has no more bytes than allowed."""
    if wanted.columns is not None:
        tensor = tensor[..., _slice("cols", wanted.columns, tensor, -1)]
    if wanted.rows is not None:
        tensor = tensor[..., _slice("rows", wanted.rows, tensor, -2), :] if tensor.dim() > 1 else _no_rows(tensor)
    if tensor.numel() * 4 > most:
        raise HTTPError(
            413,
            f"These {tensor.numel():,} numbers are more than the {most // 4:,} that are sent at once: ask for rows= "
            "and cols=, or a summary with to=.",
        )
    return sent(tensor, wanted.half)


def sent(tensor: Tensor, half: bool = False) -> TensorBytes:
    """float32, or float16 where it is asked for and large enough; whole numbers as int32."""
    if not tensor.is_floating_point():
        tensor = tensor.int()
    elif half and _fits_half(tensor):
        tensor = tensor.half()
    else:
        tensor = tensor.float()
    content = tensor.detach().cpu().contiguous().numpy()
    return TensorBytes(
        content.astype(content.dtype.newbyteorder("<"), copy=False).tobytes(), content.shape, str(content.dtype)
    )


def summary(weight: Tensor, size: str) -> Tensor:
    """A matrix made small: each cell is the number of its block that is farthest from 0."""
    found = SIZE.fullmatch(size)
    if found is None or not all(1 <= int(number) <= LARGEST for number in found.groups()):
        raise HTTPError(422, f"to = {size!r} is no size such as 128x128, at most {LARGEST}x{LARGEST}.")
    table = weight.detach().reshape(-1, weight.shape[-1]) if weight.dim() > 1 else weight.detach()[None]
    rows, columns = (min(int(number), own) for number, own in zip(found.groups(), table.shape, strict=True))
    bands = [_farthest(table[first:last], 0) for first, last in _blocks(table.shape[0], rows)]
    whole = torch.stack(bands)  # by bands, because a copy of a large table would take its memory again
    return torch.stack([_farthest(whole[:, first:last], 1) for first, last in _blocks(whole.shape[1], columns)], dim=1)


def _farthest(block: Float[Tensor, "n m"], dim: int) -> Tensor:
    high, low = block.amax(dim), block.amin(dim)
    return torch.where(high >= -low, high, low)


def _blocks(length: int, count: int) -> list[tuple[int, int]]:
    edges = [i * length // count for i in range(count + 1)]
    return list(pairwise(edges))


def _slice(name: str, text: str, tensor: Tensor, axis: int) -> slice:
    found = RANGE.fullmatch(text)
    size = tensor.shape[axis] if tensor.dim() else 0
    if found is None or not (found[1] or found[2]):
        raise HTTPError(422, f"{name} = {text!r} is neither a number nor a range such as 0:8.")
    first = int(found[1] or 0)
    last = first + 1 if found[2] is None else int(found[3] or size)
    if not first < last <= size:
        raise HTTPError(422, f"{name} = {text!r} is not within the {size} that there are, counted from 0.")
    return slice(first, last)


def _no_rows(tensor: Tensor) -> Tensor:
    raise HTTPError(422, f"This tensor has {tensor.dim()} axis and no rows: ask for cols= only.")


def _fits_half(tensor: Tensor) -> bool:
    finite = tensor.nan_to_num(0, 0, 0)
    return not finite.numel() or float(finite.abs().max()) <= LARGEST_HALF
