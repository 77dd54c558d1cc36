"""An SVG as a picture of pixels, by resvg: text is drawn with the fonts of this machine."""

import re
from functools import cache

from glassformer.errors import GlassformerError
from glassformer.inspection.figures.renderer import MISSING

DOTS_PER_INCH = 96
_LETTER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">'
    '<text x="2" y="16" font-family="{font}">{letter}</text></svg>'
)
_SIGNS = re.compile(r"<text(?=[^>]*>(?:[^<]|<(?!/text))*[−→≠≤≥√])")
_SIGNS_FONT = "DejaVu Sans, Noto Sans Math, sans-serif"
"""For texts with signs that many fonts lack: of a missing sign resvg makes the whole text another font's, a serif's."""


def as_png(svg: str, scale: float | int) -> bytes:
    """PNG at 96 dots to an inch times `scale`."""
    if not _draws_text(_font(svg)):
        raise GlassformerError(
            "None of the fonts that figures ask for is on this machine, so a PNG would have no text: install one "
            "(on Debian: apt install fonts-dejavu-core), or save the figure as .svg."
        )
    return _drawn(signs_drawn(svg), scale)


def signs_drawn(svg: str) -> str:
    return _SIGNS.sub(f'<text font-family="{_SIGNS_FONT}"', svg)


def _drawn(svg: str, scale: float | int) -> bytes:
    try:
        import resvg_py
    except ImportError:
        raise GlassformerError(MISSING) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=scale, dpi=DOTS_PER_INCH))


def _font(svg: str) -> str:
    return svg.partition('font-family="')[2].partition('"')[0]


@cache
def _draws_text(font: str) -> bool:
    """Whether a letter leaves a mark: without fonts resvg draws none, and says nothing."""
    return _drawn(_LETTER.format(font=font, letter="M"), 1) != _drawn(_LETTER.format(font=font, letter=" "), 1)
