"""Safetensors files: reading and writing of named tensors, without PyTorch."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, TensorSpec, safe_open, serialize_file

from glassformer.errors import DirectoryError
from glassformer.model.saved_tensor import RAW_BYTES, SavedTensor

ALIGNMENT_BYTES = 64
"""Alignment of tensors in memory, as torch allocates them: the last bits of its products may depend on it."""
MAX_HEADER_BYTES = 2**20
"""Maximum header of a safetensors file: enough for ten thousand tensors; parsed, it takes 25 times as much memory."""
DTYPES = {
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "BF16": "bfloat16",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""Names of the element types in a file, and in torch."""


def write_tensors(tensors: Mapping[str, SavedTensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors to a safetensors file in a directory under construction."""
    path.touch()
    mode = path.stat().st_mode  # by the umask, as of other files: the library makes its file readable by the owner only
    arrays = {name: np.ascontiguousarray(tensor.array) for name, tensor in tensors.items()}  # alive while they are read
    specs = {
        name: TensorSpec(
            dtype=tensor.dtype, shape=tensor.array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for (name, tensor), array in zip(tensors.items(), arrays.values(), strict=True)
    }
    try:
        serialize_file(specs, path, metadata=metadata)
        path.chmod(mode)
    except SafetensorError as error:  # how the library reports a full disk
        raise DirectoryError(f"{path} cannot be written: {error}.") from None


def read_tensors(path: Path) -> dict[str, SavedTensor]:
    """Read the tensors of a safetensors file by name, into aligned memory."""
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
            if header > MAX_HEADER_BYTES:
                raise DirectoryError(f"{path} has a header of {header:,} bytes; the limit is {MAX_HEADER_BYTES:,}.")
            layout = _layout(path)
            file.seek(8 + header)  # the tensors follow in the order of their offsets, without gaps
            tensors = {}
            for name, (dtype, shape) in layout.items():
                array = _aligned(shape, np.dtype(RAW_BYTES.get(dtype, dtype)))
                if file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
                    raise OSError("it ends too early")
                tensors[name] = SavedTensor(array, dtype)
            return tensors
    except (SafetensorError, OSError, ValueError, LookupError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:300].removesuffix(".")
        raise DirectoryError(f"{path} is not a readable safetensors file: {reason}.") from None


def _layout(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of every tensor, in the order of their offsets; the library checks these and the file's size."""
    with safe_open(path, framework="np") as opened:
        slices = {name: opened.get_slice(name) for name in opened.offset_keys()}
        return {name: (DTYPES[part.get_dtype()], tuple(part.get_shape())) for name, part in slices.items()}


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised array whose memory begins at a multiple of `ALIGNMENT_BYTES`."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[begin : begin + size].view(dtype).reshape(shape)
