"""Activation recording: the tensors at the model's taps (named points of the forward pass), by tap name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial

from torch import nn

from glassformer.errors import InputError
from glassformer.model.dims import Tensor
from glassformer.model.tap import Tap, taps


class Recording(Mapping[str, Tensor]):
    """Recorded activations by tap name. Step-wise decoding passes a tap once per step: `[name]` is the latest."""

    def __init__(self, recorded_taps: dict[str, Tap]) -> None:
        self._axes = {name: tap.axes for name, tap in recorded_taps.items()}
        self._values: dict[str, list[Tensor]] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.all(name)[-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, name: str) -> list[Tensor]:
        """Every tensor recorded at this tap, in order."""
        if name in self._values:
            return self._values[name]
        if name in self._axes:
            raise InputError(f"Nothing was recorded at {name}: run the model inside the `with record(...)` block.")
        raise InputError(
            f"{name} is not part of this recording, which covers {len(self._axes)} other taps, "
            f"for example {next(iter(self._axes))}."
        )

    def axes(self, name: str) -> tuple[str, ...]:
        """The letters of a recorded tensor's dimensions, as in `dims.DIMENSIONS`."""
        self.all(name)  # raises the same error for a name without a recording
        return self._axes[name]

    def add(self, name: str, x: Tensor) -> None:
        """Append a tensor that passed a tap, detached from the graph."""
        self._values.setdefault(name, []).append(x.detach())


@contextmanager
def record(model: nn.Module, *patterns: str) -> Iterator[Recording]:
    """Record the taps whose names match while the block runs: `record(model, "decoder.*.weights")`.

    `*` matches any characters, including dots; without a pattern, every tap is recorded.

    >>> import torch
    >>> model = gf.Transformer(gf.preset("tiny", vocab_size=100)).eval()
    >>> with gf.record(model, "decoder.*.cross_attention.weights") as recorded:
    ...     logits = model(torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]]))
    >>> recorded["decoder.layers.0.cross_attention.weights"].shape  # B H T S
    torch.Size([1, 4, 2, 3])
    """
    refuse_compiled(model)
    selected = matching_taps(model, patterns or ("*",))
    recording = Recording(selected)
    listeners = [(tap, partial(recording.add, name)) for name, tap in selected.items()]
    for tap, listener in listeners:
        tap.listeners.append(listener)
    try:
        yield recording
    finally:
        for tap, listener in listeners:
            tap.listeners.remove(listener)


def matching_taps(model: nn.Module, patterns: tuple[str, ...]) -> dict[str, Tap]:
    """The taps that match any of the patterns; a pattern without a match is an error."""
    all_taps = taps(model)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in all_taps):
            raise InputError(
                f"No tap matches {pattern!r}. `glassformer.taps(model)` lists all {len(all_taps)}, "
                f"for example {next(iter(all_taps), 'none')!r}."
            )
    return {name: tap for name, tap in all_taps.items() if any(fnmatchcase(name, pattern) for pattern in patterns)}


def refuse_compiled(model: nn.Module) -> None:
    """Raise for a compiled model: compilation removes the taps, so a recording would silently stay empty."""
    for name, module in model.named_modules():
        if module._compiled_call_impl is not None or hasattr(module, "_orig_mod"):
            raise InputError(
                f"{'The model' if name == '' else name} is compiled, and compiled code has no taps: "
                "record the model that was passed to torch.compile."
            )
