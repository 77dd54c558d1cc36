"""Data of the views: which function selects the data of each view of the catalogue from a trace."""

from collections.abc import Callable
from functools import partial
from typing import Any

from glassformer.errors import InputError
from glassformer.inspection.figures.attention_views import VIEW_PARTS, attention_data
from glassformer.inspection.figures.cross_attention_view import cross_attention_data
from glassformer.inspection.figures.decoding_views import beam_data, decoding_steps_data, softmax_data
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.tracing.trace import Trace

VIEW_FUNCTIONS: dict[str, Callable[[Trace, FigureOptions], dict[str, Any]]] = {
    **{view: partial(attention_data, view) for view in VIEW_PARTS},
    "cross-attention": cross_attention_data,
    "decoding-steps": decoding_steps_data,
    "beam": beam_data,
    "softmax": softmax_data,
}


def view_data(trace: Trace, view: str, options: FigureOptions) -> dict[str, Any]:
    """The data that the renderer needs for a view of a trace."""
    if view not in VIEW_FUNCTIONS:
        raise InputError(f"There is no view {view!r}; choose one of {', '.join(VIEW_FUNCTIONS)}.")
    return VIEW_FUNCTIONS[view](trace, options)
