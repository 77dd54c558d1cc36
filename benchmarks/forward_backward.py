"""One training step's forward and backward pass, beside torch.nn.Transformer on the same batch and sizes.

Both get the same embeddings, output projection and loss around them. Prints the ratio from one interleaved run:
below 1 means that glassformer is the faster, or keeps less. torch.nn.Transformer has one dropout for all its places,
so the third row of a model compares the paper's places with torch's.
"""

import argparse
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer import ModelConfig, Transformer, preset
from timing import interleaved, machine

DROPOUTS: dict[str, dict[str, Any]] = {
    "none": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
    "as torch.nn has it": {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1},
    "as the paper has it": {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0},
}


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with what it lacks: embeddings, positions, the output projection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source = nn.Embedding(config.source_vocab_size, config.d_model)
        self.target = self.source if config.share_embeddings else nn.Embedding(config.vocab_size, config.d_model)
        self.position = nn.Embedding(1024, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.body = nn.Transformer(
            config.d_model,
            config.n_heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
            norm_first=config.norm_first,
        )
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        if config.tie_output:
            self.output.weight = self.target.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == self.config.pad_id
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        hidden = self.body(
            self._embed(self.source, source),
            self._embed(self.target, target),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.output(hidden)

    def _embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = table(ids) * self.config.d_model**0.5 + self.position.weight[: ids.shape[1]]
        return self.dropout(x)


def batch(config: ModelConfig, sentences: int, longest: int) -> tuple[Tensor, Tensor]:
    """Random sentences between half the longest and the longest, padded on the right."""
    generator = torch.Generator().manual_seed(1)

    def side(vocab_size: int) -> Tensor:
        ids = torch.randint(3, vocab_size, (sentences, longest), generator=generator)
        lengths = torch.randint(longest // 2, longest + 1, (sentences, 1), generator=generator)
        return ids.masked_fill(torch.arange(longest) >= lengths, config.pad_id)

    return side(config.source_vocab_size), side(config.vocab_size)


def step(model: nn.Module, source: Tensor, target: Tensor, pad_id: int) -> None:
    model.zero_grad(set_to_none=True)
    loss(model, source, target, pad_id).backward()


def loss(model: nn.Module, source: Tensor, target: Tensor, pad_id: int) -> Tensor:
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad_id)


def kept_for_backward(model: nn.Module, source: Tensor, target: Tensor, pad_id: int) -> int:
    """Bytes that the forward pass keeps alive for the backward pass, weights aside: what decides the peak."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        value = loss(model, source, target, pad_id)  # alive while we count, so that no address is used twice
    del value
    return sum(kept.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--max-length-ratio", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(machine())
    print(f"{options.sentences} sentences of up to {options.longest} tokens, best of {options.rounds} rounds")
    print("ms: forward and backward; MB: kept for the backward pass\n")
    print(f"{'model':<9} {'dropout':<20} {'ours':>6} {'torch':>6} {'ratio':>7} {'ours':>8} {'torch':>7} {'ratio':>7}")
    for name in ("tiny", "tutorial"):
        for places, rates in DROPOUTS.items():
            config = preset(name, **rates)
            data = (*batch(config, options.sentences, options.longest), config.pad_id)
            ours, theirs = Transformer(config).train(), TorchTransformer(config).train()
            contestants = {"ours": partial(step, ours, *data), "theirs": partial(step, theirs, *data)}
            seconds = interleaved(contestants, options.rounds)
            memory = {"ours": kept_for_backward(ours, *data), "theirs": kept_for_backward(theirs, *data)}
            print(
                f"{name:<9} {places:<20}"
                f" {seconds['ours'] * 1e3:>6.0f} {seconds['theirs'] * 1e3:>6.0f} ms"
                f" {seconds['ours'] / seconds['theirs']:>4.2f}"
                f" {memory['ours'] / 1e6:>8.0f} {memory['theirs'] / 1e6:>7.0f} MB"
                f" {memory['ours'] / memory['theirs']:>4.2f}"
            )


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="enable_nested_tensor")  # torch's, about its inference path
    main()
