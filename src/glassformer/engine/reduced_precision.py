"""A model with its products in fewer bits, written to be read: what the fast path computes, at the plain model's speed.

It is the measure for the fast path's precisions, and what is used where no compiler is.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.engine.engine_options import Precision
from glassformer.model import Transformer


def rounded(model: Transformer, precision: Precision) -> Transformer:
    """The same model in this precision; the given one stays as it is."""
    if precision == "float32":
        return model
    found = copy.deepcopy(model)
    found.output_projection.weight = nn.Parameter(found.output_projection.weight.detach().clone())  # not the embedding
    for module in list(found.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Float16Linear(child) if precision == "float16" else Int8Linear(child))
    return found.eval()


class Float16Linear(nn.Linear):
    """Weights stored in float16; everything is added up in float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight = nn.Parameter(linear.weight.detach().half().to(linear.weight.dtype))
        self.bias = linear.bias


class Int8Linear(nn.Linear):
    """Weights and inputs in whole steps from -127 to 127: of weights for each output, of inputs for each row."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        steps, worth = in_steps(linear.weight.detach())
        self.weight = nn.Parameter(steps)
        self.worth = worth.squeeze(-1)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        steps, worth = in_steps(x)
        y = F.linear(steps, self.weight) * (worth * self.worth)
        return y if self.bias is None else y + self.bias


def in_steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row in whole steps from -127 to 127, and what one step of it is worth."""
    most = x.abs().amax(-1, keepdim=True)
    inverse = torch.where(most > 0, 127 / most, 0)
    return (x * inverse).round(), most / 127
