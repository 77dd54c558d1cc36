"""One training step's forward and backward pass, beside torch.nn.Transformer on the same batch and sizes.

Both get the same embeddings, output projection and loss around them. Prints the ratio from one interleaved run:
below 1 means that glassformer is the faster.
"""

import argparse
from typing import Any

import torch
from timing import interleaved, machine
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer import ModelConfig, Transformer, preset

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
        logits: Tensor = self.output(hidden)
        return logits

    def _embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = table(ids) * self.config.d_model**0.5 + self.position.weight[: ids.shape[1]]
        out: Tensor = self.dropout(x)
        return out


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
    logits = model(source, target[:, :-1])
    F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad_id).backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--longest", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(machine())
    print(f"{options.sentences} sentences of up to {options.longest} tokens, best of {options.rounds} rounds\n")
    print(f"{'model':<10} {'dropout':<22} {'glassformer':>12} {'torch.nn':>10} {'ratio':>7}")
    for name in ("tiny", "tutorial"):
        for places, rates in DROPOUTS.items():
            config = preset(name, **rates)
            source, target = batch(config, options.sentences, options.longest)
            models = {"ours": Transformer(config).train(), "torch": TorchTransformer(config).train()}
            seconds = interleaved(
                {
                    who: lambda model=model: step(model, source, target, config.pad_id)  # type: ignore[misc]
                    for who, model in models.items()
                },
                options.rounds,
            )
            print(
                f"{name:<10} {places:<22} {seconds['ours'] * 1e3:>9.0f} ms {seconds['torch'] * 1e3:>7.0f} ms"
                f" {seconds['ours'] / seconds['torch']:>7.2f}"
            )


if __name__ == "__main__":
    main()
