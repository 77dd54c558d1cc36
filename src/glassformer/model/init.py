"""Weight initialisation: small random matrices, so that the outputs of all sub-layers start at a similar scale."""

from torch import nn


def initialise(model: nn.Module) -> None:
    """Initialise a model: Xavier-uniform matrices, zero biases, embeddings of norm about 1 (times √D if scaled)."""
    if any(weight.is_meta for weight in model.parameters()):
        return  # no values to set; drawing random numbers on the meta device would import torch's compiler, for seconds
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif (std := getattr(module, "initial_std", None)) is not None:  # a table of embeddings, positions or biases
            nn.init.normal_(module.get_parameter("weight"), std=std)
