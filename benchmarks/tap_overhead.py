"""Overhead of a tap without listeners, per call."""

import timeit

import torch

from glassformer import Transformer, preset, taps
from glassformer.model import Tap
from timing import machine_description


def main() -> None:
    tap, x = Tap("B S D"), torch.zeros(1, 1, 8)
    with_tap = min(timeit.repeat(lambda: tap(x), number=100_000, repeat=7)) / 100_000
    empty = min(timeit.repeat(lambda: x, number=100_000, repeat=7)) / 100_000
    model = Transformer(preset("tiny")).eval()
    print(machine_description())
    print(
        f"a tap without listeners: {(with_tap - empty) * 1e6:.2f} µs per call; "
        f"the tiny preset has {len(taps(model))} taps"
    )


if __name__ == "__main__":
    main()
