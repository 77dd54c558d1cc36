"""Figure: an SVG with selectable text and a description, to save, show in a notebook, or convert to PNG."""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Unpack

from glassformer.atomic_directory import replace_file
from glassformer.errors import InputError
from glassformer.inspection.figures.figure_options import FigureArguments, FigureOptions
from glassformer.inspection.figures.png import as_png
from glassformer.inspection.figures.renderer import as_svg
from glassformer.inspection.figures.views import view_data
from glassformer.inspection.tracing.trace import Trace


@dataclass(frozen=True)
class Figure:
    """A figure of a trace as SVG, drawn from one of the views."""

    view: str
    svg: str

    @cached_property
    def title(self) -> str:
        return self._element("title")

    @cached_property
    def description(self) -> str:
        """What the figure shows, in sentences with numbers."""
        return self._element("desc")

    def png(self, scale: float | int = 2) -> bytes:
        """The figure as PNG, at 96 dots per inch times `scale`; text in the fonts of this machine."""
        return as_png(self.svg, scale)

    def save(self, path: str | os.PathLike[str], scale: float | int = 2) -> None:
        """Write the figure as .svg or .png, by the path's suffix, atomically."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".svg", ".png"):
            raise InputError(f"A figure cannot be saved as {os.fspath(path)!r}: use a name that ends in .svg or .png.")
        replace_file(Path(path), self.svg.encode() if suffix == ".svg" else self.png(scale))

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": f"{self.title}. {self.description}"}

    def __repr__(self) -> str:
        return f"<Figure {self.view}: {self.title}>"

    def _element(self, name: str) -> str:
        match = re.search(rf"<{name}[^>]*>(.*?)</{name}>", self.svg, re.DOTALL)
        return unescape(match[1]) if match else ""


def figure(trace: Trace, view: str, **options: Unpack[FigureArguments]) -> Figure:
    """Draw a view of a trace, such as "attention" or "multi-head", with the options of `FigureOptions`.

    >>> trace = gf.inspect(gf.load("street")).trace("The animal slept.")
    >>> picture = gf.figure(trace, "attention", at="encoder.layers.0.self_attention", head=0)
    >>> picture.save("attention.svg")

    `glassformer figure --help` lists the views. A notebook shows the figure.
    """
    checked = FigureOptions(**options)
    data = view_data(trace, view, checked)
    style = {"width": int(checked.width.removesuffix("mm")), "dark": checked.dark, "caption": checked.caption}
    return Figure(view, as_svg(view, data, style))
