"""Default settings for options that are left out, chosen from the corpus size and the hardware."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data import TokenizerSettings, epoch_batches
from glassformer.engine.devices import chosen_device
from glassformer.training.run_resources import choose_ranks
from glassformer.training.run_settings import RunSettings

# Corpus size in pairs, up to which these hold: preset, vocabulary size, epochs. A small corpus needs a small model and
# many epochs; the values are those that did well on 29,000 pairs (Multi30k) and on 60,000 (street).
DEFAULTS_BY_PAIRS = [
    (5_000, "tiny", 2_000, 60.0),
    (20_000, "tiny", 4_000, 40.0),
    (200_000, "small", 8_000, 20.0),
    (2_000_000, "small", 16_000, 10.0),
    (float("inf"), "paper-base", 32_000, 5.0),
]


def choose_tokenizer(pairs: int) -> TokenizerSettings:
    """Tokenizer settings with a vocabulary size for this corpus size."""
    return TokenizerSettings(vocab_size=_defaults(pairs)[2])


def choose_model(model: dict[str, Any], pairs: int) -> dict[str, Any]:
    """The model's options, with a preset chosen for this corpus size if no preset is given."""
    return {"preset": _defaults(pairs)[1]} | model


def choose_training(settings: RunSettings, pairs: int, lengths: NDArray[np.int64], parameters: int) -> RunSettings:
    """The settings with every open option of training and validation filled in."""
    training, validation = settings.training, settings.validation
    ranks = training.ranks or choose_ranks(parameters, chosen_device(training.device))
    micro_batches = training.micro_batches or max(1, min(ranks, training.batch_tokens // 512))
    updates = training.updates
    if updates is None:
        batches = len(epoch_batches(lengths, training.batch_tokens // micro_batches, settings.seed, epoch=0))
        epochs = training.epochs or _defaults(pairs)[3]
        updates = max(1, round(epochs * -(-batches // micro_batches)))
    every = validation.every or max(1, min(2000, updates // 20))
    warmup = min(400, updates // 10) if training.warmup is None else training.warmup
    choices = {"updates": updates, "epochs": None, "warmup": warmup, "micro_batches": micro_batches}
    training = training.model_copy(update=choices | {"ranks": min(ranks, micro_batches)})
    validation = validation.model_copy(update={"every": every})
    return settings.model_copy(update={"training": training, "validation": validation})


def _defaults(pairs: int) -> tuple[float, str, int, float]:
    return next(row for row in DEFAULTS_BY_PAIRS if pairs <= row[0])
