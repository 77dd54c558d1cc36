"""Products in fewer bits: torch's autocast on a GPU; on a processor the products alone.

Autocast keeps what stands between the products in half the bits, too, and attention on a processor is slow in those:
the layers took nearly twice as long as in float32, and this takes three quarters.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def chosen_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """What products are made in; None is float32."""
    if precision == "auto":
        if device.type == "cuda":
            fast = torch.cuda.is_bf16_supported()
        else:  # without such instructions bfloat16 is emulated, and slow
            fast = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
        precision = "bfloat16" if fast else "float32"
    return torch.bfloat16 if precision == "bfloat16" else None


def products_in(dtype: torch.dtype | None, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Where x Wᵀ + b of float32 is made in `dtype`, forwards and backwards; everywhere else the bits stay."""
    if dtype is None:
        return contextlib.nullcontext()
    if device.type == "cpu":
        return LinearIn(dtype)
    return torch.autocast(device.type, dtype)


def rounded_type(x: Tensor, products: torch.dtype | None) -> torch.dtype:
    """What x is multiplied in: float32 may be rounded; who chose another type meant it."""
    return products if products is not None and x.dtype == torch.float32 else x.dtype


class LinearIn(TorchFunctionMode):
    """While it lasts, `F.linear` of float32 is `RoundedLinear`."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.linear and rounded_type(args[0], self.dtype) != args[0].dtype:
            x, weight, bias = [*args, None][:3]
            return RoundedLinear.apply(x, weight, bias, self.dtype)
        return func(*args, **(kwargs or {}))


class RoundedLinear(torch.autograd.Function):
    """x Wᵀ + b with what is multiplied rounded to a shorter type, forwards and backwards, and so are the products.

    Their sums are made in float32 by the processor before that, and the bias is added in float32 after it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        rows, rounded = x.flatten(0, -2).to(dtype), weight.to(dtype)
        ctx.save_for_backward(rows, rounded)
        ctx.shape, ctx.biased = x.shape, bias is not None
        y = torch.mm(rows, rounded.t()).float()
        if bias is not None:
            y += bias
        return y.unflatten(0, x.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *by_output: Tensor) -> tuple[Tensor | None, ...]:
        rows, rounded = ctx.saved_tensors
        by_y = by_output[0].flatten(0, -2)
        short = by_y.to(rows.dtype)
        by_x = torch.mm(short, rounded).float().view(ctx.shape)
        by_weight = torch.mm(short.t(), rows).float()
        return by_x, by_weight, by_y.sum(0) if ctx.biased else None, None
