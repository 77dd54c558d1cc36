"""Weight initialisation: small random matrices, so that the outputs of all sub-layers start at a similar scale."""

from torch import nn

from glassformer.model.positions import LearnedPositions, RelativeBias
from glassformer.model.stack import Embedding


def initialise(model: nn.Module) -> None:
    """Initialise a model: Xavier-uniform matrices, zero biases, embeddings of norm about 1 (times √D if scaled)."""
    if any(weight.is_meta for weight in model.parameters()):
        return  # no values to set; drawing random numbers on the meta device would import torch's compiler, for seconds
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding | LearnedPositions):
            nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
        elif isinstance(module, RelativeBias):
            nn.init.normal_(module.weight, std=0.1)
