"""What a torch.save file holds: with arrays, as our reader gives it, and with tensors of torch."""

from typing import Any

from torch import Tensor

from glassformer.model.saved_tensor import SavedTensor, saved_tensor


def with_tensors(saved: Any) -> Any:
    """What `read_torch_file` returned, with tensors; they share its memory."""
    if isinstance(saved, SavedTensor):
        return saved.tensor()
    return {key: with_tensors(value) for key, value in saved.items()} if isinstance(saved, dict) else saved


def with_arrays(contents: Any) -> Any:
    """The same contents with tensors as `read_torch_file` gives them."""
    if isinstance(contents, Tensor):
        return saved_tensor(contents)
    return {key: with_arrays(value) for key, value in contents.items()} if isinstance(contents, dict) else contents
