"""Common base of encoder and decoder: embedding, positions, layers and the final norm."""

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar, cast

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Bool, Float, Int, Tensor
from glassformer.model.dropout import dropout
from glassformer.model.layers import DecoderLayer, EncoderLayer, Norm
from glassformer.model.positions import RelativeBias, added_positions, relative_bias, rotations
from glassformer.model.tap import Tap


class PositionTerms(NamedTuple):
    """Position information inside self-attention, if any: a bias on the scores, or a rotation of q and k."""

    bias: Float[Tensor, "H Q M"] | None
    rotation: Float[Tensor, "2 Q K"] | None


class Embedding(nn.Module):
    """Token embedding: one vector per token of the vocabulary, times √D (section 3.4)."""

    def __init__(self, config: ModelConfig, vocab_size: int, length: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.initial_std = config.d_model**-0.5
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.output = Tap(f"B {length} D")

    def forward(self, ids: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
            raise InputError(
                f"Token ids must be an integer tensor with two axes, sentences and positions; these are {ids.dtype} "
                f"of shape {list(ids.shape)}."
            )
        try:
            x = F.embedding(ids, self.weight)
        except IndexError:
            raise InputError(
                f"Token ids must be from 0 to {len(self.weight) - 1}; these go from {ids.min()} to {ids.max()}. "
                "Encode the text with this model's tokenizer."
            ) from None
        return self.output(x * self.scale if self.scale != 1.0 else x)


Layer = TypeVar("Layer", bound=EncoderLayer | DecoderLayer)


class Stack(nn.Module, Generic[Layer]):
    """Base class of encoder and decoder: embedding, positions, layers, and for pre-norm a final norm."""

    def __init__(
        self, config: ModelConfig, vocab_size: int, length: str, bidirectional: bool, layers: list[Layer]
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, vocab_size, length)
        self.position = added_positions(config, length)
        self.embedding_norm = Norm(config, length) if config.embedding_norm else None
        self.input = Tap(f"B {length} D")
        self.relative_bias = relative_bias(config, "stack", bidirectional, length)
        self.layers = cast("Sequence[Layer]", nn.ModuleList(layers))  # the type of a ModuleList has no element type
        self.final_norm = Norm(config, length) if config.norm_first else None

    def embed(self, ids: Int[Tensor, "B S"], present: Bool[Tensor, "B S"], first: int = 0) -> Float[Tensor, "B S D"]:
        """Token embeddings plus positions. `first`: position of the first token; `present`: False for padding."""
        x = self.embedding(ids)
        if self.position is not None:
            x = x + self.position(first, ids.shape[1], like=x)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x = dropout(x, self.config.dropout, self.training)
        # Attention gives padding the weight 0, but 0 × NaN is NaN: the vectors of padding are set to 0.
        return self.input(x.masked_fill(~present[:, :, None], 0))

    @property
    def relative_biases(self) -> list[RelativeBias]:
        """The modules whose bias is added to the scores: one for all layers, one per layer, or none."""
        modules = [self.relative_bias, *(layer.relative_bias for layer in self.layers)]
        return [module for module in modules if module is not None]

    def position_terms(self, first: int, queries: int, like: Tensor) -> list[PositionTerms]:
        """Position terms of each layer, for queries at first, first + 1, ... and keys from 0 to the last query."""
        rotation = rotations(self.config, first, queries, like)
        biases = [bias(first, queries, first + queries) for bias in self.relative_biases] or [None]
        return [PositionTerms(bias, rotation) for bias in biases] * (len(self.layers) // len(biases))

    def finish(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return x if self.final_norm is None else self.final_norm(x)
