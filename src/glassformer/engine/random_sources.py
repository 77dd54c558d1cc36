"""Sources that nobody wrote, to try a model on."""

import random
from collections.abc import Iterable

from glassformer.model import ModelConfig


def random_sources(config: ModelConfig, lengths: Iterable[int]) -> list[list[int]]:
    """One of each length: tokens by chance, the same every time, and the end of sentence."""
    chance = random.Random(0)
    special = {config.pad_id, config.bos_id, config.eos_id}
    words = [token for token in range(config.source_vocab_size) if token not in special]
    return [[*chance.choices(words, k=length), config.eos_id] for length in lengths]
