"""The decoder: target tokens and the encoder's output in, one vector per target position out."""

import torch

from glassformer.model.attention import KeyValues
from glassformer.model.config import ModelConfig
from glassformer.model.decoder_state import Past
from glassformer.model.dims import Bool, Float, Int, Tensor
from glassformer.model.layers import DecoderLayer
from glassformer.model.stack import Stack


class Decoder(Stack[DecoderLayer]):
    """N layers of self-attention, cross-attention and feed-forward over the target (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        layers = [DecoderLayer(config) for _ in range(config.decoder_layers)]
        super().__init__(config, config.vocab_size, "T", bidirectional=False, layers=layers)

    def source_keys_values(self, memory: Float[Tensor, "B S D"]) -> list[KeyValues]:
        """Every layer's K and V of the encoder's output: computed once per sentence, however long the target."""
        return [layer.cross_attention.keys_values(memory) for layer in self.layers]

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        source: list[KeyValues],
        source_visible: Bool[Tensor, "B S"],
        past: list[Past] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Decode `ids` to one vector per position.

        In training `ids` is the whole target; in decoding, the newest tokens, with the state of the earlier ones in
        `past`.
        """
        first = past[0].length if past else 0
        count = ids.shape[1]
        position = torch.arange(first, first + count, device=ids.device)
        # The first token is the start token, even if that is the padding token, as in Marian's models.
        x = self.embed(ids, (ids != self.config.pad_id) | (position == 0), first)
        visible = causal_mask(first, count, ids.device)
        terms = self.position_terms(first, count, like=x)
        for i, layer in enumerate(self.layers):
            x = layer(x, source[i], source_visible[:, None, None, :], visible, *terms[i], past[i] if past else None)
        return self.finish(x)


def causal_mask(first: int, queries: int, device: torch.device) -> Bool[Tensor, "1 1 Q M"] | None:
    """Causal mask: each query sees the keys up to its own position; None if every query sees all keys."""
    if queries == 1:
        return None
    return torch.ones(1, 1, queries, first + queries, dtype=torch.bool, device=device).tril(first)
