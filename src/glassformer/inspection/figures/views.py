"""Views of a trace (kinds of figure) by name: their descriptions and the data they need."""

from typing import Any

from glassformer.errors import InputError
from glassformer.inspection.figures.attention_views import VIEW_PARTS, attention_data
from glassformer.inspection.figures.cross_attention_view import cross_attention_data
from glassformer.inspection.figures.decoding_views import beam_data, decoding_steps_data, softmax_data
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.tracing.trace import Trace

VIEWS = {
    "qkv": "X × W_Q = Q, X × W_K = K, X × W_V = V, for one head",
    "self-attention": "softmax(Q Kᵀ / √K) V = Z, for one head",
    "heads": "the Q, K and V of every head",
    "heads-out": "the Z of every head, and its contribution to the output",
    "concat": "all Z concatenated, times W_O",
    "multi-head": "the whole attention, from input to output",
    "cross-attention": "K and V of each decoder layer, from the encoder's output",
    "attention": "the attention weights of one head, or of all",
    "decoding-steps": "decoding step by step, with both key/value caches",
    "beam": "the search tree",
    "softmax": "the most likely tokens at one target position",
}


def view_data(trace: Trace, view: str, options: FigureOptions) -> dict[str, Any]:
    """The data that the renderer needs for a view of a trace."""
    if view in VIEW_PARTS:
        return attention_data(trace, view, options)
    match view:
        case "cross-attention":
            return cross_attention_data(trace, options)
        case "decoding-steps":
            return decoding_steps_data(trace, options)
        case "beam":
            return beam_data(trace, options)
        case "softmax":
            return softmax_data(trace, options)
    raise InputError(f"There is no view {view!r}; choose one of {', '.join(VIEWS)}.")
