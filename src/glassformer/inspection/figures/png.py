"""SVG to PNG conversion with resvg; text is drawn with the fonts of this machine."""

import re
from functools import cache

from glassformer.errors import GlassformerError
from glassformer.extras import explained

DOTS_PER_INCH = 96
_LETTER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">'
    '<text x="2" y="16" font-family="{font}">{letter}</text></svg>'
)
_TEXT_WITH_SYMBOLS = re.compile(r"<text(?=[^>]*>(?:[^<]|<(?!/text))*[−→≠≤≥√])")
_SYMBOL_FONT = "DejaVu Sans, Noto Sans Math, sans-serif"
"""Font for texts with rare symbols: resvg sets a whole text in a serif font if its font lacks one symbol."""


def as_png(svg: str, scale: float | int) -> bytes:
    """Convert an SVG to PNG, at 96 dots per inch times `scale`."""
    if not _draws_text(_font(svg)):
        raise GlassformerError(
            "None of the figures' fonts is installed on this machine, so a PNG would have no text: install one "
            "(on Debian: apt install fonts-dejavu-core), or save the figure as .svg."
        )
    return _rendered(with_symbol_font(svg), scale)


def with_symbol_font(svg: str) -> str:
    """The SVG with another font for texts that contain rare symbols."""
    return _TEXT_WITH_SYMBOLS.sub(f'<text font-family="{_SYMBOL_FONT}"', svg)


def _rendered(svg: str, scale: float | int) -> bytes:
    with explained():
        import resvg_py
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=scale, dpi=DOTS_PER_INCH))


def _font(svg: str) -> str:
    return svg.partition('font-family="')[2].partition('"')[0]


@cache
def _draws_text(font: str) -> bool:
    """Whether resvg draws text in this font: without fonts, it silently draws none."""
    return _rendered(_LETTER.format(font=font, letter="M"), 1) != _rendered(_LETTER.format(font=font, letter=" "), 1)
