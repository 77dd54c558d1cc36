"""Bounds on the float32 rounding error of a model, by Monte Carlo arithmetic.

No fixed tolerance fits every random model: a norm over two nearly equal features magnifies a rounding error a
thousandfold, and so does the next one. So the model runs in float64 with every weight and every intermediate perturbed
by a random amount of the size of float32's rounding. How far its results move bounds how far any float32 implementation
may be from the exact ones. (D. S. Parker, Monte Carlo Arithmetic, 1997; J. Vignes' CESTAC method is the same idea.)
"""

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from glassformer.model import Transformer, taps

UNIT = 2**-24
"""The largest relative error of one rounding to float32."""
DRAWS = 3
FACTOR = 10
"""Margin between the largest deviation in a few draws and the worst of millions of roundings."""


def perturbed(model: Transformer, seed: int) -> Transformer:
    """The model in float64 with random errors of the size of float32's rounding in all weights and intermediates."""
    generator = torch.Generator().manual_seed(seed)

    def with_error(x: Tensor) -> Tensor:
        steps = x.shape[-1] ** 0.5 if x.dim() else 1.0  # the error of a sum of that many terms with random signs
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        return torch.where(x.isfinite(), x * (1 + UNIT * steps * noise), x)

    model = copy.deepcopy(model).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(with_error(weight))
    for tap in taps(model).values():
        tap.listeners.append(with_error)
    return model


def float32_error(compute: Callable[[Transformer], Tensor], model: Transformer) -> float:
    """Bound on the error of the values of `compute` when they are computed in float32."""
    return float32_errors(lambda model: {"": compute(model)}, model)[""]


def float32_errors(compute: Callable[[Transformer], Mapping[str, Tensor]], model: Transformer) -> dict[str, float]:
    """The same for several tensors by name.

    One bound for all elements of a tensor: a few draws find the largest error reliably, that of one element only by
    luck. It is at least some rounding errors of 1, the size of the values inside a norm, where there is no tap.
    """
    with torch.no_grad():
        exact = dict(compute(copy.deepcopy(model).double()))
        draws = [dict(compute(perturbed(model, seed))) for seed in range(DRAWS)]
    return {
        name: FACTOR * (max(_largest(draw[name] - value) for draw in draws) + UNIT * max(_largest(value), 1))
        for name, value in exact.items()
    }


def _largest(x: Tensor) -> float:
    finite = x[x.isfinite()]  # scores of masked keys are -inf
    return finite.abs().max().item() if finite.numel() else 0.0
