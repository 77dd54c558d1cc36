"""What a tap costs when nobody listens: one call, and all those of a decoding step."""

import timeit

import torch

from glassformer import Transformer, preset, taps
from glassformer.model import Tap
from timing import machine


def main() -> None:
    tap, x = Tap("B S D"), torch.zeros(1, 1, 8)
    alone = min(timeit.repeat(lambda: tap(x), number=100_000, repeat=7)) / 100_000
    empty = min(timeit.repeat(lambda: x, number=100_000, repeat=7)) / 100_000
    model = Transformer(preset("tiny")).eval()
    print(machine())
    print(f"a silent tap: {(alone - empty) * 1e6:.2f} µs; the tiny preset has {len(taps(model))}")


if __name__ == "__main__":
    main()
