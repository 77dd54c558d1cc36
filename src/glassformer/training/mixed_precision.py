"""Mixed precision: matrix products in bfloat16. On a GPU by torch's autocast; on a CPU only the products themselves.

Autocast also keeps the values between the products in bfloat16, and attention on a CPU is slow in that type: with it,
the layers took nearly twice as long as in float32; with the products alone they take three quarters of that time.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def chosen_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """The dtype of matrix products for a `precision` setting; None means float32."""
    if precision == "auto":
        if device.type == "cuda":
            fast = torch.cuda.is_bf16_supported()
        else:  # without these instructions bfloat16 is emulated, and slow; on MPS it was not measured
            instructions = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
            fast = device.type == "cpu" and instructions
        precision = "bfloat16" if fast else "float32"
    return torch.bfloat16 if precision == "bfloat16" else None


def matmul_in(dtype: torch.dtype | None, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Context in which x Wᵀ + b of float32 is computed in `dtype`, forward and backward.

    On a CPU nothing else is rounded.
    """
    if dtype is None:
        return contextlib.nullcontext()
    if device.type == "cpu":
        return RoundedLinearMode(dtype)
    return torch.autocast(device.type, dtype)


def matmul_dtype_for(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype to multiply x in: `dtype` for float32; any other type was chosen deliberately and is kept."""
    return dtype if dtype is not None and x.dtype == torch.float32 else x.dtype


class RoundedLinearMode(TorchFunctionMode):
    """Context in which `F.linear` of float32 is computed by `RoundedLinear`."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.linear and matmul_dtype_for(args[0], self.dtype) != args[0].dtype:
            x, weight, bias = [*args, None][:3]
            return RoundedLinear.apply(x, weight, bias, self.dtype)
        return func(*args, **(kwargs or {}))


class RoundedLinear(torch.autograd.Function):
    """Linear layer x Wᵀ + b with factors and product rounded to a shorter dtype, forward and backward.

    The processor accumulates in float32 before it rounds the product, and the bias is added in float32 afterwards.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        rows, rounded_weight = x.flatten(0, -2).to(dtype), weight.to(dtype)
        ctx.save_for_backward(rows, rounded_weight)
        ctx.shape, ctx.has_bias = x.shape, bias is not None
        y = torch.mm(rows, rounded_weight.t()).float()
        if bias is not None:
            y += bias
        return y.unflatten(0, x.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        rows, rounded_weight = ctx.saved_tensors
        grad_y = grad_outputs[0].flatten(0, -2)
        rounded_grad = grad_y.to(rows.dtype)
        grad_x = torch.mm(rounded_grad, rounded_weight).float().view(ctx.shape)
        grad_weight = torch.mm(rounded_grad.t(), rows).float()
        return grad_x, grad_weight, grad_y.sum(0) if ctx.has_bias else None, None
