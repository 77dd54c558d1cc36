"""Options of figures: which attention, head and token to show, and the style."""

from typing import Annotated, Literal, TypedDict

from pydantic import Field

from glassformer.settings import Settings

Index = Annotated[int, Field(ge=0)]


class FigureArguments(TypedDict, total=False):
    """The options of `FigureOptions` as arguments of a function."""

    at: str | None
    head: int | None
    token: str | int | None
    likeliest: int
    width: Literal["86mm", "178mm"]
    dark: bool
    caption: bool


class FigureOptions(Settings):
    """What a figure shows, and its style. Positions, heads and layers are counted from 0."""

    at: str | None = None
    """The name of an attention, such as "decoder.layers.1.cross_attention"; by default the encoder's last.

    For `decoding-steps`, any name within a decoder layer; by default the last layer."""
    head: Index | None = None
    """The head to show. By default, views of one head show the first, and `attention` shows all."""
    token: str | Index | None = None
    """The query token to highlight: a token or word of the rows, or its position.

    For `softmax`, the token whose prediction is shown; by default the one with the highest entropy."""
    likeliest: Annotated[int, Field(ge=1, le=40)] = 10
    """Number of tokens that `softmax` shows; the others share one bar."""
    width: Literal["86mm", "178mm"] = "178mm"
    """Width of the figure: one column of a journal, or a full page."""
    dark: bool = False
    """Whether to draw light text on a dark background."""
    caption: bool = True
    """Whether the description is also drawn under the figure."""
