"""Taps: the named places of the forward pass where one may listen, or put something else.

A tap stands in the module tree beside the parameters, so its name is its address:
`decoder.layers.3.cross_attention.weights`. Silent, it costs about a microsecond.
"""

from collections.abc import Callable

from torch import nn

from glassformer.model.dims import DIMENSIONS, Tensor

Listener = Callable[[Tensor], Tensor | None]
"""Hears the value that passes; what it returns (if anything) passes on instead. The value itself stays as it is."""


class Tap(nn.Module):
    """A named place in the forward pass: returns its input, and may be listened to."""

    def __init__(self, axes: str) -> None:
        super().__init__()
        self.axes = tuple(axes.split())
        """The letters of `DIMENSIONS`, one an axis."""
        assert set(self.axes) <= set(DIMENSIONS), axes
        self.listeners: list[Listener] = []

    def forward(self, x: Tensor) -> Tensor:
        for listener in self.listeners:
            heard = listener(x)
            x = x if heard is None else heard
        return x

    @property
    def heard(self) -> bool:
        """Whether somebody listens: some values are made only then."""
        return len(self.listeners) > 0

    def extra_repr(self) -> str:
        return " ".join(self.axes)


def taps(model: nn.Module) -> dict[str, Tap]:
    """Every tap of the model by name, in the order of the module tree."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
