"""Taps: named points of the forward pass whose value can be observed or replaced.

A tap is a module in the module tree, so its name is its path, as with parameters:
`decoder.layers.3.cross_attention.weights`. Without listeners it costs about a microsecond.
"""

from collections.abc import Callable

from torch import nn

from glassformer.model.dims import DIMENSIONS, Tensor

Listener = Callable[[Tensor], Tensor | None]
"""Function called with a tap's value, which it must not modify; what it returns, unless None, replaces the value."""


class Tap(nn.Module):
    """A named point of the forward pass: returns its input, or what its listeners replace it with."""

    def __init__(self, axes: str) -> None:
        super().__init__()
        self.axes = tuple(axes.split())
        """The letters of the value's axes, as in `DIMENSIONS`."""
        assert set(self.axes) <= set(DIMENSIONS), axes
        self.listeners: list[Listener] = []

    def forward(self, x: Tensor) -> Tensor:
        for listener in self.listeners:
            replacement = listener(x)
            x = x if replacement is None else replacement
        return x

    @property
    def has_listeners(self) -> bool:
        """Whether the tap has a listener: some values are computed only then."""
        return len(self.listeners) > 0

    def extra_repr(self) -> str:
        return " ".join(self.axes)


def taps(model: nn.Module) -> dict[str, Tap]:
    """All taps of the model by name, in the order of the module tree.

    >>> model = gf.Transformer(gf.preset("tiny", vocab_size=100))
    >>> gf.taps(model)["decoder.layers.0.cross_attention.weights"].axes
    ('B', 'H', 'T', 'S')
    """
    return {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
