"""A small real translator that nobody trained: a tokenizer of street's words, and random weights."""

from functools import cache
from itertools import islice
from pathlib import Path

import torch

from glassformer.atomic_directory import building
from glassformer.builtin import street
from glassformer.data import Pair, Tokenizer, TokenizerSettings, train_tokenizer
from glassformer.model import ModelConfig
from glassformer.model.directory import write_model
from tests.models import build


@cache
def tokenizer(vocab_size: int = 600) -> Tokenizer:
    made = list(islice(street.sentences("train", 500), 500))
    pairs = [Pair(number, one.source, one.target) for number, one in enumerate(made, start=1)]
    return train_tokenizer(TokenizerSettings(vocab_size=vocab_size), lambda: pairs)


def model(seed: int = 0, **options):
    """Random weights, large enough to have opinions."""
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 2}
    made = build(ModelConfig(vocab_size=tokenizer().vocab_size("source"), **shape | options), seed, torch.float32)
    with torch.no_grad():
        made.output_projection.weight.mul_(3)
    return made.eval()


def saved(directory: Path, seed: int = 0, **options) -> Path:
    """The same as a model directory."""
    with building(directory) as under_way:
        write_model(model(seed, **options), under_way)
        tokenizer().write(under_way / "tokenizer")
    return directory
