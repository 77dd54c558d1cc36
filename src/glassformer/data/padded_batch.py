"""Sentences side by side as tensors: padded on the right, the target shifted once, here and nowhere else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.tokenizer import BOS, PAD


@dataclass(frozen=True)
class Batch:
    """What a model is trained on at once."""

    source: Tensor
    """Token ids, B S; each sentence ends with the end of sentence."""
    target_in: Tensor
    """What the decoder has seen at each position, B T: it begins with the start."""
    target_out: Tensor
    """What comes next at each position, B T: it ends with the end of sentence."""

    @property
    def real(self) -> Tensor:
        """True at the target positions that count, B T."""
        return self.target_out != PAD

    def to(self, device: torch.device) -> "Batch":
        """The same batch in another place."""
        return Batch(self.source.to(device), self.target_in.to(device), self.target_out.to(device))

    def twice(self) -> "Batch":
        """Each sentence a second time, behind all of them."""
        return Batch(*(torch.cat((part, part)) for part in (self.source, self.target_in, self.target_out)))

    @property
    def tokens(self) -> int:
        """Target tokens that count."""
        return int(self.real.sum())


def make_batch(pairs: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Batch:
    """A batch of sources and targets as they stand in a store."""
    sources, targets = zip(*pairs, strict=True)
    target_out = _padded(targets)
    target_in = torch.cat((torch.full_like(target_out[:, :1], BOS), target_out[:, :-1]), dim=1)
    # Behind a shorter sentence, what was its end is now input; nothing counts there, and padding it stays.
    return Batch(_padded(sources), target_in.masked_fill(target_out == PAD, PAD), target_out)


def _padded(sentences: Sequence[NDArray[np.int64]]) -> Tensor:
    """Sentences as rows, filled up on the right."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD, dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return torch.from_numpy(ids)
