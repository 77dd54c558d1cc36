"""How a model begins: small random matrices, so that every sub-layer starts with outputs of a like size."""

from torch import nn

from glassformer.model.positions import LearnedPositions, RelativeBias
from glassformer.model.stack import Embedding


def initialise(model: nn.Module) -> None:
    """Xavier-uniform matrices, zero biases, embeddings of length about 1 (times √D where they are scaled)."""
    if any(weight.is_meta for weight in model.parameters()):
        return  # shapes without numbers; asking torch for random ones there would import its compiler, for seconds
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding | LearnedPositions):
            nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
        elif isinstance(module, RelativeBias):
            nn.init.normal_(module.weight, std=0.1)
