"""Random source sentences, as token ids, for testing a model."""

import random
from collections.abc import Iterable

from glassformer.model import ModelConfig


def random_sources(config: ModelConfig, lengths: Iterable[int]) -> list[list[int]]:
    """One source per length: random tokens (the same on every call) and the end of sentence."""
    generator = random.Random(0)
    special = {config.pad_id, config.bos_id, config.eos_id}
    words = [token for token in range(config.source_vocab_size) if token not in special]
    return [[*generator.choices(words, k=length), config.eos_id] for length in lengths]
