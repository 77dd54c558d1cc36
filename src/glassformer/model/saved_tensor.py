"""Tensors as files hold them: NumPy arrays, with the name of an element type that NumPy may lack. Without PyTorch.

NumPy has neither bfloat16 nor float8: their arrays hold the bytes.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from glassformer.model.dims import Tensor

RAW_BYTES = {"bfloat16": "uint16"} | dict.fromkeys(
    ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), "uint8"
)
"""Types of torch that NumPy lacks, and the type of the same size that holds their bytes."""
FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Types of weights."""


class SavedTensor(NamedTuple):
    """A tensor's elements, and the name of its type in torch, which NumPy may lack (see `RAW_BYTES`)."""

    array: NDArray[Any]
    dtype: str

    @property
    def values(self) -> NDArray[Any]:
        """The numbers: the array itself, or for bfloat16 the same numbers as float32."""
        return from_bfloat16(self.array) if self.dtype == "bfloat16" else self.array

    def tensor(self) -> "Tensor":
        """As a tensor of torch, which shares the memory."""
        import torch

        array = self.array if self.array.flags.writeable else self.array.copy()  # torch has no read-only tensors
        return torch.from_numpy(array).view(getattr(torch, self.dtype))


def saved_tensor(tensor: "Tensor") -> SavedTensor:
    """A tensor of torch as an array, which shares its memory if it is on the CPU."""
    import torch

    tensor, dtype = tensor.detach().cpu(), str(tensor.dtype).removeprefix("torch.")
    if dtype in RAW_BYTES:
        tensor = tensor.contiguous().view(getattr(torch, RAW_BYTES[dtype]))
    return SavedTensor(tensor.numpy(), dtype)


def from_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The numbers of bfloat16 bits: the upper halves of float32."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def rounded(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Numbers rounded to a type as torch rounds them, through float32; bfloat16 numbers are returned as float32."""
    if dtype == "float64":
        return values.astype(np.float64)
    values = values.astype(np.float32)
    if dtype == "bfloat16":
        bits = values.view(np.uint32)
        return (bits + 0x7FFF + ((bits >> 16) & 1) & 0xFFFF0000).view(np.float32)  # to nearest, ties to even
    return values.astype(np.float16) if dtype == "float16" else values
