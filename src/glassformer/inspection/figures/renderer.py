"""Figure renderer: `figures.js`, built from frontend/src/figures, run in QuickJS without a browser or Node."""

import json
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from glassformer.extras import explained

BUNDLE = Path(__file__).with_name("figures.js")
_CALL = """
function draw(view, data, options) {
  return glassformerFigures.render(view, JSON.parse(data), JSON.parse(options));
}
"""

_per_thread = threading.local()
"""One renderer per thread: a QuickJS context may be used only by the thread that created it."""


def as_svg(view: str, data: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Render a view as SVG. Data and options are passed as JSON."""
    draw = getattr(_per_thread, "draw", None)
    if draw is None:
        draw = _per_thread.draw = _renderer()
    return cast(str, draw(view, json.dumps(data, allow_nan=False), json.dumps(options)))


def _renderer() -> Callable[[str, str, str], object]:
    with explained():
        import quickjs  # type: ignore[import-untyped]
    context = quickjs.Context()
    context.eval(_bundle() + _CALL)
    # The function keeps its context alive.
    return cast("Callable[[str, str, str], object]", context.get("draw"))


@cache
def _bundle() -> str:
    return BUNDLE.read_text(encoding="utf-8")
