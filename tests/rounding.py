"""How far rounding alone may move a model's numbers, found by Monte Carlo arithmetic.

No fixed tolerance fits every random model: a norm over two features that are nearly equal magnifies a rounding a
thousandfold, and so does the next one. So the model runs in float64 with every weight and every intermediate moved by a
random amount of the size of float32's rounding. How far its results move is how far any implementation's in float32 may
be from the exact ones. (D. S. Parker, Monte Carlo Arithmetic, 1997; J. Vignes' CESTAC method is the same idea.)
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
"""Between how far a few draws move a result and how far the worst of millions of roundings does."""


def jittered(model: Transformer, seed: int) -> Transformer:
    """The model in float64, whose weights and intermediates are each off by what float32 may make of them."""
    generator = torch.Generator().manual_seed(seed)

    def moved(x: Tensor) -> Tensor:
        steps = x.shape[-1] ** 0.5 if x.dim() else 1.0  # errors of so many added numbers, of random signs
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        return torch.where(x.isfinite(), x * (1 + UNIT * steps * noise), x)

    model = copy.deepcopy(model).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(moved(weight))
    for tap in taps(model).values():
        tap.listeners.append(moved)
    return model


def float32_error(compute: Callable[[Transformer], Tensor], model: Transformer) -> float:
    """How far the numbers that `compute` gives may be off when they are computed in float32."""
    return float32_errors(lambda model: {"": compute(model)}, model)[""]


def float32_errors(compute: Callable[[Transformer], Mapping[str, Tensor]], model: Transformer) -> dict[str, float]:
    """The same for several tensors by name.

    One bound for all numbers of a tensor: a few draws find the largest error reliably, a single number's only by luck.
    It is at least some roundings of 1, the size that numbers have inside a norm, where there is no tap.
    """
    with torch.no_grad():
        exact = dict(compute(copy.deepcopy(model).double()))
        moved = [dict(compute(jittered(model, seed))) for seed in range(DRAWS)]
    return {
        name: FACTOR * (max(_largest(draw[name] - value) for draw in moved) + UNIT * max(_largest(value), 1))
        for name, value in exact.items()
    }


def _largest(x: Tensor) -> float:
    finite = x[x.isfinite()]  # scores of masked keys are -inf
    return finite.abs().max().item() if finite.numel() else 0.0
