"""Padded batches as tensors: padding on the right, and the only place where the target is shifted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.tokenizer import BOS, PAD


@dataclass(frozen=True)
class Batch:
    """One training batch of B sentence pairs."""

    source: Tensor
    """Token ids, B S; each sentence ends with EOS."""
    target_in: Tensor
    """Decoder input, B T: begins with BOS."""
    target_out: Tensor
    """The next token at each position, B T: ends with EOS."""

    @property
    def target_mask(self) -> Tensor:
        """True at target positions that are not padding, B T."""
        return self.target_out != PAD

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(self.source.to(device), self.target_in.to(device), self.target_out.to(device))

    def twice(self) -> "Batch":
        """The batch concatenated with itself: 2B sentences."""
        return Batch(*(torch.cat((part, part)) for part in (self.source, self.target_in, self.target_out)))

    @property
    def tokens(self) -> int:
        """Number of target tokens without padding."""
        return int(self.target_mask.sum())


def make_batch(pairs: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Batch:
    """A padded batch from (source, target) pairs of a token store."""
    sources, targets = zip(*pairs, strict=True)
    target_out = _pad(targets)
    target_in = torch.cat((torch.full_like(target_out[:, :1], BOS), target_out[:, :-1]), dim=1)
    # The shift puts the EOS of a shorter sentence into its padding: restored to PAD, as that position is not counted.
    return Batch(_pad(sources), target_in.masked_fill(target_out == PAD, PAD), target_out)


def _pad(sentences: Sequence[NDArray[np.int64]]) -> Tensor:
    """Sentences as rows of one tensor, padded on the right."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD, dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return torch.from_numpy(ids)
