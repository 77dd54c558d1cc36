"""Float16, bfloat16 and int8 weights in PyTorch: the readable reference for what the compiled engine computes.

The compiled engine is tested against it; it also runs where there is no C compiler. On a GPU half precision is another
thing: all weights and values have that type.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.engine.engine_options import Precision
from glassformer.model import Transformer


def to_precision(model: Transformer, precision: Precision) -> Transformer:
    """A copy of the model in this precision; float32 returns the model itself."""
    if precision == "float32":
        return model
    reduced = copy.deepcopy(model)
    projection = reduced.output_projection
    projection.weight = nn.Parameter(projection.weight.detach().clone())  # untied from the embedding
    for module in list(reduced.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, LINEARS[precision](child))
    return reduced.eval()


def precision_of(model: Transformer) -> Precision:
    """The precision of a model that `to_precision` made, or of all its weights."""
    if (half := HALF_TYPES.get(model.output_projection.weight.dtype)) is not None:
        return half
    kinds: dict[type, Precision] = {linear: precision for precision, linear in LINEARS.items()}
    return kinds.get(type(model.output_projection), "float32")


class Float16Linear(nn.Linear):
    """Linear layer with weights stored in float16 and sums accumulated in float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight = nn.Parameter(linear.weight.detach().half().to(linear.weight.dtype))
        self.bias = linear.bias


class Bfloat16Linear(nn.Linear):
    """Linear layer with weights and inputs rounded to bfloat16, and sums accumulated in float32.

    |y - (W x + b)| <= 2^-7 |W| |x|, plus the rounding of a float32 sum of as many terms: each factor changes by
    at most 2^-8 of itself.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight = nn.Parameter(linear.weight.detach().bfloat16().to(linear.weight.dtype))
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.bfloat16().to(x.dtype), self.weight, self.bias)


class Int8Linear(nn.Linear):
    """Linear layer with weights and inputs quantised to -127 ... 127, one scale per output and per input row."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        steps, scale = quantise_rows(linear.weight.detach())
        self.weight = nn.Parameter(steps)
        self.scale = scale.squeeze(-1)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        steps, scale = quantise_rows(x)
        y = F.linear(steps, self.weight) * (scale * self.scale)
        return y if self.bias is None else y + self.bias


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise each row to integers from -127 to 127; returns them with each row's scale, the value of one step."""
    largest = x.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 1e-36, 127 / largest, 0)  # of a smaller number it would be infinite
    return (x * inverse).round(), largest / 127


LINEARS: dict[Precision, type[Float16Linear | Bfloat16Linear | Int8Linear]] = {
    "float16": Float16Linear,
    "bfloat16": Bfloat16Linear,
    "int8": Int8Linear,
}
"""Linear layers by precision."""
HALF_TYPES: dict[torch.dtype, Precision] = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
