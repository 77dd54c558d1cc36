"""Forward and backward pass of a training step, compared with torch.nn.Transformer on the same batch and sizes.

Both have the same embeddings, output projection and loss. Prints the ratio from one interleaved run: below 1 means that
glassformer is faster, or uses less memory. torch.nn.Transformer has a single dropout rate for all places, so the third
row of a model compares dropout as in the paper with torch's.
"""

import argparse
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer import ModelConfig, Transformer, preset
from timing import interleaved, machine_description

DROPOUTS: dict[str, dict[str, Any]] = {
    "none": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
    "as in torch.nn": {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1},
    "as in the paper": {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0},
}


class TorchTransformer(nn.Module):
    """torch.nn.Transformer plus what it lacks: embeddings, positions and the output projection."""

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


def batch(config: ModelConfig, sentences: int, max_tokens: int) -> tuple[Tensor, Tensor]:
    """Random sentences of max_tokens / 2 to max_tokens tokens, padded on the right."""
    generator = torch.Generator().manual_seed(1)

    def side(vocab_size: int) -> Tensor:
        ids = torch.randint(3, vocab_size, (sentences, max_tokens), generator=generator)
        lengths = torch.randint(max_tokens // 2, max_tokens + 1, (sentences, 1), generator=generator)
        return ids.masked_fill(torch.arange(max_tokens) >= lengths, config.pad_id)

    return side(config.source_vocab_size), side(config.vocab_size)


def step(model: nn.Module, source: Tensor, target: Tensor, pad_id: int) -> None:
    model.zero_grad(set_to_none=True)
    loss(model, source, target, pad_id).backward()


def loss(model: nn.Module, source: Tensor, target: Tensor, pad_id: int) -> Tensor:
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad_id)


def saved_for_backward(model: nn.Module, source: Tensor, target: Tensor, pad_id: int) -> int:
    """Bytes saved by the forward pass for the backward pass, without weights: they determine the peak."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    sizes: dict[int, int] = {}

    def note_size(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note_size, lambda x: x):
        value = loss(model, source, target, pad_id)  # alive while counting, so that no address is reused
    del value
    return sum(sizes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=128, metavar="N", help="Sentences per batch.")
    parser.add_argument("--max-tokens", type=int, default=32, metavar="N", help="Maximum tokens per sentence.")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="Rounds; the best counts.")
    options = parser.parse_args()
    print(machine_description())
    print(f"{options.sentences} sentences of up to {options.max_tokens} tokens, best of {options.rounds} rounds")
    print("ms: forward and backward; MB: saved for the backward pass\n")
    print(f"{'model':<9} {'dropout':<20} {'ours':>6} {'torch':>6} {'ratio':>7} {'ours':>8} {'torch':>7} {'ratio':>7}")
    for name in ("tiny", "tutorial"):
        for places, rates in DROPOUTS.items():
            config = preset(name, **rates)
            data = (*batch(config, options.sentences, options.max_tokens), config.pad_id)
            ours, theirs = Transformer(config).train(), TorchTransformer(config).train()
            steps = {"ours": partial(step, ours, *data), "theirs": partial(step, theirs, *data)}
            seconds = interleaved(steps, options.rounds)
            memory = {"ours": saved_for_backward(ours, *data), "theirs": saved_for_backward(theirs, *data)}
            print(
                f"{name:<9} {places:<20}"
                f" {seconds['ours'] * 1e3:>6.0f} {seconds['theirs'] * 1e3:>6.0f} ms"
                f" {seconds['ours'] / seconds['theirs']:>4.2f}"
                f" {memory['ours'] / 1e6:>8.0f} {memory['theirs'] / 1e6:>7.0f} MB"
                f" {memory['ours'] / memory['theirs']:>4.2f}"
            )


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="enable_nested_tensor")  # a torch warning about its inference path
    main()
