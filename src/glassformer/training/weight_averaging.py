"""Averaged weights: what is validated and kept, while training goes on with its own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """e ← d e + (1 - d) w at each update, where d rises to `decay` so that the first weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, number: int) -> None:
        decay = min(self.decay, (1 + number) / (10 + number))
        torch._foreach_lerp_(list(self.weights.values()), list(model.parameters()), 1 - decay)


def mean(many: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, taken in double precision."""
    return {
        name: torch.stack([weights[name].double() for weights in many]).mean(0).to(first.dtype)
        for name, first in many[0].items()
    }


@contextmanager
def using_weights(model: nn.Module, weights: Mapping[str, Tensor] | None) -> Iterator[None]:
    """The model with other weights for a while, and with its own again afterwards; None changes nothing."""
    if weights is None:
        yield
        return
    own = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    try:
        _put(model, weights)
        yield
    finally:
        _put(model, own)


@torch.no_grad()
def _put(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])
