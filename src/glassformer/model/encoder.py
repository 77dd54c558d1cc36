"""The encoder: source tokens in, one context-dependent vector per token out."""

from glassformer.model.config import ModelConfig
from glassformer.model.dims import Bool, Float, Int, Tensor
from glassformer.model.layers import EncoderLayer
from glassformer.model.stack import Stack


class Encoder(Stack[EncoderLayer]):
    """N layers of self-attention and feed-forward over the source (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        layers = [EncoderLayer(config) for _ in range(config.encoder_layers)]
        super().__init__(config, config.source_vocab_size, "S", bidirectional=True, layers=layers)

    def forward(self, ids: Int[Tensor, "B S"], visible: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        x = self.embed(ids, visible)
        terms = self.position_terms(0, ids.shape[1], like=x)
        for i, layer in enumerate(self.layers):
            x = layer(x, visible[:, None, None, :], *terms[i])
        return self.finish(x)
