"""Letters of the tensor dimensions, used by shape annotations, taps, docs and figures.

Shapes are checked in the tests (jaxtyping + beartype); outside them the annotations cost nothing.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["DIMENSIONS", "Bool", "Dimension", "Float", "Int", "Tensor"]


class Dimension(NamedTuple):
    meaning: str
    field: str | None = None
    """The field of ModelConfig that sets the dimension's size; None if the input does."""


DIMENSIONS = {
    "B": Dimension("sentences in the batch (times beams in search)"),
    "S": Dimension("source positions"),
    "T": Dimension("target positions"),
    "Q": Dimension("query positions, inside attention"),
    "M": Dimension("memory positions (of keys and values), inside attention"),
    "D": Dimension("width of the model", "d_model"),
    "H": Dimension("heads", "n_heads"),
    "K": Dimension("width of one head", "d_head"),
    "F": Dimension("width of the feed-forward", "d_ff"),
    "V": Dimension("vocabulary of the target", "vocab_size"),
}
