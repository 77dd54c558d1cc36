"""A model to listen to and to change, beside the one that others use at the same time."""

import torch

from glassformer.model import Transformer


def weight_sharing_copy(model: Transformer) -> Transformer:
    """A second set of modules around the same weights: what is done at its taps, nobody else hears."""
    with torch.device("meta"):  # made without numbers; they are the other's
        made = Transformer(model.config)
    for own, other in zip(made.modules(), model.modules(), strict=True):
        own._parameters.update(other._parameters)
        own._buffers.update(other._buffers)
    return made.eval()
