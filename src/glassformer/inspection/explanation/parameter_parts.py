"""Parameters grouped by function (W_Q, feed-forward, norms, ...), named as in the paper."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

# The first matching pattern decides; a test checks that every parameter of every config matches one.
PARTS = (
    ("*_attention.q_proj.*", "W_Q"),
    ("*_attention.k_proj.*", "W_K"),
    ("*_attention.v_proj.*", "W_V"),
    ("*_attention.out_proj.*", "W_O"),
    ("*.recurrence.*", "recurrence"),
    ("*.feed_forward.*", "feed-forward"),
    ("*_norm.*", "norms"),
    ("*.position.*", "positions"),
    ("*.relative_bias.*", "positions"),
    ("*.embedding.*", "embeddings"),
    ("output_projection.*", "output"),
)
SUBLAYERS = (
    ("encoder.*.self_attention.*", "encoder self-attention"),
    ("decoder.*.self_attention.*", "decoder self-attention"),
    ("decoder.*.recurrence.*", "decoder recurrence"),
    ("decoder.*.cross_attention.*", "decoder cross-attention"),
    ("encoder.*.feed_forward.*", "encoder feed-forward"),
    ("decoder.*.feed_forward.*", "decoder feed-forward"),
)


@dataclass(frozen=True)
class ParameterPart:
    """One parameter of the model, with its sub-layer and its function."""

    name: str
    sublayer: str
    """Sub-layer, for example "decoder cross-attention"; outside the sub-layers, the same as `part`."""
    part: str
    """Function of the parameter, for example "W_K"."""
    shape: tuple[int, ...]
    size: int


def parts(model: nn.Module) -> list[ParameterPart]:
    """All parameters of a model, shared ones once under their first name, in the order of the module tree."""
    return [
        ParameterPart(
            name, _label(SUBLAYERS, name) or part_of(name), part_of(name), tuple(weight.shape), weight.numel()
        )
        for name, weight in model.named_parameters()
    ]


def part_of(name: str) -> str:
    """Function of a parameter by its name: "W_K" for `decoder.layers.3.cross_attention.k_proj.weight`."""
    part = _label(PARTS, name)
    assert part is not None, name
    return part


def _label(table: tuple[tuple[str, str], ...], name: str) -> str | None:
    return next((label for pattern, label in table if fnmatchcase(name, pattern)), None)
