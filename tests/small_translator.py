"""A small untrained translator: a tokenizer trained on the street corpus, and random weights."""

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
    sentences = list(islice(street.sentences("train", 500), 500))
    pairs = [Pair(number, one.source, one.target) for number, one in enumerate(sentences, start=1)]
    return train_tokenizer(TokenizerSettings(vocab_size=vocab_size), pairs)


def model(seed: int = 0, **options):
    """Random weights, large enough that the probabilities are far from uniform."""
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 2}
    built = build(ModelConfig(vocab_size=tokenizer().vocab_size("source"), **shape | options), seed, torch.float32)
    with torch.no_grad():
        built.output_projection.weight.mul_(3)
    return built.eval()


def saved(directory: Path, seed: int = 0, **options) -> Path:
    """Save the model with its tokenizer as a model directory."""
    with building(directory) as temporary:
        write_model(model(seed, **options), temporary)
        tokenizer().write(temporary / "tokenizer")
    return directory
