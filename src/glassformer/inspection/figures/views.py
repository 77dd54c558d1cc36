"""The views by name: descriptions, and the data that each needs."""

from typing import Any

from glassformer.errors import InputError
from glassformer.inspection.figures.attention_views import VIEW_PARTS, attention_data
from glassformer.inspection.figures.bridge_view import bridge_data
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.output_views import beam_data, film_data, softmax_data
from glassformer.inspection.tracing.trace import Trace

VIEWS = {
    "qkv": "X × W_Q = Q, X × W_K = K, X × W_V = V, for one head",
    "self-attention": "softmax(Q Kᵀ / √K) V = Z, for one head",
    "heads": "the Q, K and V of every head",
    "heads-out": "the Z of every head, and its contribution to the output",
    "concat": "all Z side by side, times W_O",
    "multi-head": "the whole attention, from tokens to output",
    "bridge": "from the encoder's output to every decoder layer's own K and V",
    "attention": "the attention weights of one head, or of all",
    "film": "decoding step by step, with both key/value caches",
    "beam": "the search tree",
    "softmax": "the most likely tokens at one target position",
}


def view_data(trace: Trace, view: str, options: FigureOptions) -> dict[str, Any]:
    """The data that the renderer needs for a view of a trace."""
    if view in VIEW_PARTS:
        return attention_data(trace, view, options)
    match view:
        case "bridge":
            return bridge_data(trace, options)
        case "film":
            return film_data(trace, options)
        case "beam":
            return beam_data(trace, options)
        case "softmax":
            return softmax_data(trace, options)
    raise InputError(f"There is no view {view!r}; choose one of {', '.join(VIEWS)}.")
