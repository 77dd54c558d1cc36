"""Listening to a running model: every intermediate by name, with the numbers it really used."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial

from torch import nn

from glassformer.errors import InputError
from glassformer.model.dims import Tensor
from glassformer.model.tap import Tap, taps


class Recording(Mapping[str, Tensor]):
    """What the taps heard, by name. While decoding, a tap speaks at every step: `[name]` is the newest."""

    def __init__(self, listened: dict[str, Tap]) -> None:
        self._axes = {name: tap.axes for name, tap in listened.items()}
        self._heard: dict[str, list[Tensor]] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.all(name)[-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._heard)

    def __len__(self) -> int:
        return len(self._heard)

    def all(self, name: str) -> list[Tensor]:
        """Everything this tap heard, in order."""
        if name in self._heard:
            return self._heard[name]
        if name in self._axes:
            raise InputError(f"Nothing has passed {name} since the recording began: run the model inside the block.")
        raise InputError(f"{name} was not listened to; {len(self._axes)} others were, {next(iter(self._axes))} first.")

    def axes(self, name: str) -> tuple[str, ...]:
        """The letters of the dimensions, as in `dims.DIMENSIONS`."""
        self.all(name)  # the same complaint for a name that was not heard
        return self._axes[name]

    def hear(self, name: str, x: Tensor) -> None:
        self._heard.setdefault(name, []).append(x.detach())


@contextmanager
def record(model: nn.Module, *patterns: str) -> Iterator[Recording]:
    """Listen to the taps whose names match, while the block runs: `record(model, "decoder.*.weights")`.

    A `*` stands for any characters, dots too; no pattern means every tap.
    """
    refuse_compiled(model)
    chosen = matching_taps(model, patterns or ("*",))
    recording = Recording(chosen)
    listeners = {name: partial(recording.hear, name) for name in chosen}
    for name, tap in chosen.items():
        tap.listeners.append(listeners[name])
    try:
        yield recording
    finally:
        for name, tap in chosen.items():
            tap.listeners.remove(listeners[name])


def matching_taps(model: nn.Module, patterns: tuple[str, ...]) -> dict[str, Tap]:
    """The taps that any of the patterns names; a pattern that names none is an error."""
    every = taps(model)
    chosen: dict[str, Tap] = {}
    for pattern in patterns:
        found = {name: tap for name, tap in every.items() if fnmatchcase(name, pattern)}
        if not found:
            raise InputError(
                f"No tap is called {pattern!r}; `glassformer.taps(model)` lists all {len(every)}, "
                f"{next(iter(every), 'none')!r} for one."
            )
        chosen |= found
    return {name: tap for name, tap in every.items() if name in chosen}


def refuse_compiled(model: nn.Module) -> None:
    """In compiled code the taps are gone, and a recorder would hear nothing without a word."""
    for name, module in model.named_modules():
        if module._compiled_call_impl is not None or hasattr(module, "_orig_mod"):
            raise InputError(
                f"{'The model' if name == '' else name} is compiled, and compiled code passes no taps: "
                "record the model that torch.compile was given."
            )
