"""A step model without a network: its logits are a fixed random function of the source and all tokens so far."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding.next_tokens import NextTokens, summarise_logits

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Table:
    """Random logits, seeded by the source and the tokens so far; `sharp`: their standard deviation."""

    seed: int
    vocab_size: int = 7
    sharp: float = 2.0
    max_tokens: int | None = None
    pad: int = PAD
    bos: int = BOS
    eos: int = EOS
    refills: bool = True
    extra_positions: int = 0

    def open(self, width: int) -> "TableRows":
        return TableRows(self, width)

    def logits(self, history: tuple[int, ...]) -> Tensor:
        seed = zlib.crc32(repr((self.seed, history)).encode())
        return self.sharp * torch.randn(self.vocab_size, generator=torch.Generator().manual_seed(seed)).double()

    def log_ps(self, source: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Log-probability of each token given those before it."""
        before = (*source, -1, self.bos)
        return [self.logits((*before, *tokens[:i])).log_softmax(-1)[token].item() for i, token in enumerate(tokens)]


class TableRows:
    def __init__(self, table: Table, width: int) -> None:
        self.table, self.width = table, width
        self.histories: list[tuple[int, ...]] = []

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        assert self.table.refills or not self.histories, "a sentence joined a running batch"
        self.histories += [(*source, -1) for source in sources]

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        self.histories = [(*history, token) for history, token in zip(self.histories, tokens, strict=True)]
        logits = torch.stack([self.table.logits(history) for history in self.histories])
        return summarise_logits(logits, count, never)

    def keep(self, rows: Sequence[int]) -> None:
        self.histories = [self.histories[row] for row in rows]
