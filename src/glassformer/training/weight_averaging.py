"""Weight averaging: the averaged weights are validated and saved, while training continues with the raw ones."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """Exponential moving average: e ← d e + (1 - d) w at each update.

    d rises to `decay`, so that the average soon forgets the initial weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, number: int) -> None:
        decay = min(self.decay, (1 + number) / (10 + number))
        torch._foreach_lerp_(list(self.weights.values()), list(model.parameters()), 1 - decay)


def mean(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, computed in double precision."""
    return {
        name: torch.stack([weights[name].cpu().double() for weights in models]).mean(0).to(first.dtype)
        for name, first in models[0].items()
    }


@contextmanager
def using_weights(model: nn.Module, weights: Mapping[str, Tensor] | None) -> Iterator[None]:
    """Replace the model's weights inside the block and restore them afterwards; None changes nothing."""
    if weights is None:
        yield
        return
    original = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    try:
        load_weights(model, weights)
        yield
    finally:
        load_weights(model, original)


@torch.no_grad()
def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model."""
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])
