"""A model without a network: logits that depend on the source and on every token so far, and on nothing else."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding.next_tokens import NextTokens, examined

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Table:
    """Looks its logits up by what it has been told; `sharp` is how strong its opinions are."""

    seed: int
    vocab_size: int = 7
    sharp: float = 2.0
    max_tokens: int | None = None
    pad: int = PAD
    bos: int = BOS
    eos: int = EOS
    refills: bool = True
    spare: int = 0

    def open(self, width: int) -> "TableRows":
        return TableRows(self, width)

    def logits(self, told: tuple[int, ...]) -> Tensor:
        seed = zlib.crc32(repr((self.seed, told)).encode())
        return self.sharp * torch.randn(self.vocab_size, generator=torch.Generator().manual_seed(seed)).double()

    def log_ps(self, source: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Of each token after those before it."""
        before = (*source, -1, self.bos)
        return [self.logits((*before, *tokens[:i])).log_softmax(-1)[token].item() for i, token in enumerate(tokens)]


class TableRows:
    def __init__(self, table: Table, width: int) -> None:
        self.table, self.width = table, width
        self.told: list[tuple[int, ...]] = []

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        assert self.table.refills or not self.told, "a sentence joined those under way"
        self.told += [(*source, -1) for source in sources]

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        self.told = [(*told, token) for told, token in zip(self.told, tokens, strict=True)]
        return examined(torch.stack([self.table.logits(told) for told in self.told]), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        self.told = [self.told[row] for row in rows]
