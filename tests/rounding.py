"""Bounds on the float32 rounding error of a model, by Monte Carlo arithmetic.

No fixed tolerance fits every random model: a norm over two nearly equal features magnifies a rounding error a
thousandfold, and so does the next one. So the model runs in float64 with every weight and every intermediate perturbed
by a random amount of the size of float32's rounding. How far its results move bounds how far any float32 implementation
may be from the exact ones. (D. S. Parker, Monte Carlo Arithmetic, 1997; J. Vignes' CESTAC method is the same idea.)
"""

import copy
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.model import Transformer, taps
from glassformer.model.layers import Norm

UNIT = 2**-24
"""The largest relative error of one rounding to float32."""
DRAWS = 3
TRIES = 100
"""Most draws for a decision; of two that nearly tie, each is drawn often."""
FACTOR = 10
"""Margin between the largest deviation in a few draws and the worst of millions of roundings."""


def perturbed(model: Transformer, seed: int, one_pass_variance: bool = False, unit: float = UNIT) -> Transformer:
    """The model in float64 with random errors of the size of float32's rounding in all weights and intermediates.

    `one_pass_variance`: norms compute the variance as mean of x² - mean², whose error is relative to x². `unit`: the
    largest relative error of a rounding.
    """
    generator = torch.Generator().manual_seed(seed)

    def error(size: Tensor, terms: int) -> Tensor:
        """Error of a sum of that many terms with random signs, whose sizes add up to `size`."""
        return unit * terms**0.5 * size * torch.randn(size.shape, generator=generator, dtype=torch.float64)

    def with_error(x: Tensor) -> Tensor:
        return torch.where(x.isfinite(), x + error(x, x.shape[-1] if x.dim() else 1), x)

    def norm_with_error(norm: Norm, x: Tensor) -> Tensor:
        """The norm has no taps inside, and its output hides its errors: of two features that are not nearly equal it
        is ±1 for any input, but rounding their mean moves both."""
        if norm.bias is None:
            return norm.output(F.rms_norm(x, norm.weight.shape, norm.weight, norm.eps))
        mean = x.mean(-1, keepdim=True) + error(x.abs().mean(-1, keepdim=True), x.shape[-1])
        centred = with_error(x - mean)
        square = ((x if one_pass_variance else centred) ** 2).mean(-1, keepdim=True)
        variance = (x.var(-1, unbiased=False, keepdim=True) + error(square, x.shape[-1])).clamp_min(0)
        return norm.output(centred / (variance + norm.eps).sqrt() * norm.weight + norm.bias)

    model = copy.deepcopy(model).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(with_error(weight))
    for tap in taps(model).values():
        tap.listeners.append(with_error)
    for module in model.modules():
        if isinstance(module, Norm):
            module.forward = partial(norm_with_error, module)
    return model


def explained_by_rounding(compute: Callable[[Transformer], object], model: Transformer, found: object) -> bool:
    """Whether errors of float32's size, with the usual margin, can lead to what a float32 implementation found.

    For results that are decisions: a search that meets a near tie goes on elsewhere, and may end far away.
    """
    with torch.no_grad():
        return any(compute(perturbed(model, seed, unit=FACTOR * UNIT)) == found for seed in range(TRIES))


def float32_error(compute: Callable[[Transformer], Tensor], model: Transformer, **options: bool) -> float:
    """Bound on the error of the values of `compute` when they are computed in float32; options of `perturbed`."""
    return float32_errors(lambda model: {"": compute(model)}, model, **options)[""]


def float32_errors(
    compute: Callable[[Transformer], Mapping[str, Tensor]], model: Transformer, **options: bool
) -> dict[str, float]:
    """The same for several tensors by name.

    One bound for all elements of a tensor: a few draws find the largest error reliably, that of one element only by
    luck. It is at least some rounding errors of 1, the size of the values inside a norm, where there is no tap.
    """
    with torch.no_grad():
        exact = dict(compute(copy.deepcopy(model).double()))
        draws = [dict(compute(perturbed(model, seed, **options))) for seed in range(DRAWS)]
    return {
        name: FACTOR * (max(_largest(draw[name] - value) for draw in draws) + UNIT * max(_largest(value), 1))
        for name, value in exact.items()
    }


def _largest(x: Tensor) -> float:
    finite = x[x.isfinite()]  # scores of masked keys are -inf
    return finite.abs().max().item() if finite.numel() else 0.0
