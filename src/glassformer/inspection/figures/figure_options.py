"""What a figure may be told."""

from typing import Annotated, Literal

from pydantic import Field

from glassformer.settings import Settings

Place = Annotated[int, Field(ge=0)]


class FigureOptions(Settings):
    """How a figure is to look, and what it is about. Positions, heads and layers are counted from 0."""

    at: str | None = None
    """The address of an attention: "decoder.layers.1.cross_attention". Unless given, the encoder's last; of `film`,
    any address in a decoder layer, the last one's unless given."""
    head: Place | None = None
    """One head. Unless given, views of one head show the first, and `attention` shows all."""
    token: str | Place | None = None
    """A token or a word of the rows, or its position: the one to look at. `softmax` shows the least certain one."""
    likeliest: Annotated[int, Field(ge=1, le=40)] = 10
    """Tokens that `softmax` shows; the others are one bar."""
    width: Literal["86mm", "178mm"] = "178mm"
    """A column of a journal, or a page."""
    dark: bool = False
    """Light on dark."""
    caption: bool = True
    """Whether the description stands under the picture too."""
