"""What a run takes when its user does not say: from the size of the corpus, and from the machine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data import TokenizerSettings, epoch_batches
from glassformer.training.run_resources import choose_ranks
from glassformer.training.run_settings import RunSettings

# Up to so many pairs: the preset, the vocabulary, and the passes over the corpus. A small corpus wants a small model
# that sees it often; the figures are those that did well on 29,000 pairs (Multi30k) and on 60,000 (street).
SIZES = [
    (5_000, "tiny", 2_000, 60.0),
    (20_000, "tiny", 4_000, 40.0),
    (200_000, "small", 8_000, 20.0),
    (2_000_000, "small", 16_000, 10.0),
    (float("inf"), "paper-base", 32_000, 5.0),
]


def choose_tokenizer(pairs: int) -> TokenizerSettings:
    """A vocabulary that fits the corpus."""
    return TokenizerSettings(vocab_size=_row(pairs)[2])


def choose_model(model: dict[str, Any], pairs: int) -> dict[str, Any]:
    """The model's options, with a preset if there was none."""
    return {"preset": _row(pairs)[1]} | model


def choose_training(settings: RunSettings, pairs: int, lengths: NDArray[np.int64], parameters: int) -> RunSettings:
    """The settings with nothing left open."""
    training, validation = settings.training, settings.validation
    ranks = training.ranks or choose_ranks(parameters)
    parts = training.parts or max(1, min(ranks, training.batch_tokens // 512))
    updates = training.updates
    if updates is None:
        batches = len(epoch_batches(lengths, training.batch_tokens // parts, settings.seed, epoch=0))
        epochs = training.epochs or _row(pairs)[3]
        updates = max(1, round(epochs * -(-batches // parts)))
    every = validation.every or max(1, min(2000, updates // 20))
    warmup = min(400, updates // 10) if training.warmup is None else training.warmup
    training = training.model_copy(
        update={"updates": updates, "epochs": None, "warmup": warmup, "parts": parts, "ranks": min(ranks, parts)}
    )
    return settings.model_copy(
        update={"training": training, "validation": validation.model_copy(update={"every": every})}
    )


def _row(pairs: int) -> tuple[float, str, int, float]:
    return next(row for row in SIZES if pairs <= row[0])
