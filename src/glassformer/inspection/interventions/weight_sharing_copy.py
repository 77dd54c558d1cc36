"""Weight-sharing copy of a model, for recording and interventions while the original is in use."""

import torch

from glassformer.model import Transformer


def weight_sharing_copy(model: Transformer) -> Transformer:
    """Copy a model's modules but not its weights, in eval mode; the copy's taps are independent of the original's."""
    with torch.device("meta"):  # allocates nothing; the weights are those of the original
        copy = Transformer(model.config)
    for new_module, module in zip(copy.modules(), model.modules(), strict=True):
        new_module._parameters.update(module._parameters)
        new_module._buffers.update(module._buffers)
    return copy.eval()
