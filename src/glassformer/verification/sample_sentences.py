"""Source sentences, as token ids, for benchmarks, exports and invariant checks."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer
    from glassformer.model import ModelConfig

MAX_SENTENCE_TOKENS = 128  # one overlong line must not dominate a measurement


def sentences(
    config: "ModelConfig", tokenizer: "AnyTokenizer | None", text: Path | None, count: int
) -> list[list[int]]:
    """Token ids of a text's first lines; without a text, of the built-in corpus; without a tokenizer, random ids."""
    if tokenizer is None and text is not None:
        raise DataError("The model has no tokenizer: leave out the text, and random token ids are used.")
    if tokenizer is None:
        from glassformer.engine.random_source_ids import random_sources

        return random_sources(config, itertools.islice(itertools.cycle(range(5, 31)), count))
    from glassformer.builtin import street
    from glassformer.data.corpus import read_lines

    max_tokens = min(MAX_SENTENCE_TOKENS, config.max_tokens or MAX_SENTENCE_TOKENS)
    lines = read_lines(text) if text else (pair.source for pair in street.sentences("test", count))
    encoded = (tokenizer.encode(line, "source") for line in lines if line.strip())
    sources = list(itertools.islice((ids for ids in encoded if len(ids) <= max_tokens), count))
    if not sources:
        raise DataError(f"{text} has no usable line. Expected sentences of at most {max_tokens} tokens, one per line.")
    return sources
