"""Data for the view `bridge`: from the encoder's output to every decoder layer's own K and V."""

from typing import Any

from glassformer.inspection.figures.figure_numbers import matrix, weight
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.figure_tokens import source_tokens
from glassformer.inspection.tracing.trace import Trace
from glassformer.model.attention import merge_heads
from glassformer.model.dims import Tensor


def bridge_data(trace: Trace, options: FigureOptions) -> dict[str, Any]:
    """`BridgeData` of frontend/src/figures/types.ts."""
    top = trace.config.encoder_layers - 1
    encoder = f"encoder.layers.{top}.self_attention"
    return {
        "tokens": source_tokens(trace),
        "memory": matrix(trace["memory"]),
        "heads": trace.config.n_heads,
        "encoderTop": {"layer": top} | {f"w{letter}": _projection(trace, encoder, letter) for letter in "kv"},
        "lanes": [_lane(trace, layer, encoder) for layer in range(trace.config.decoder_layers)],
    }


def _lane(trace: Trace, layer: int, encoder: str) -> dict[str, Any]:
    at = f"decoder.layers.{layer}.cross_attention"
    lane: dict[str, Any] = {"layer": layer}
    for letter in "kv":
        lane[f"w{letter}"] = _projection(trace, at, letter)
        lane[letter] = matrix(merge_heads(trace[f"{at}.{letter}"][None])[0])
        lane[f"{letter}SharedWith"] = shared_with(trace, f"{at}.{letter}_proj.weight")
        lane[f"{letter}Cosine"] = _cosine(*(trace.parameter(f"{name}.{letter}_proj.weight") for name in (at, encoder)))
    return lane


def _projection(trace: Trace, at: str, letter: str) -> dict[str, Any]:
    """W_K or W_V as in the paper, D × H·K."""
    config = trace.config
    parameter = trace.parameter(f"{at}.{letter}_proj.weight")
    return weight(None if parameter is None else parameter.T, config.d_model, config.n_heads * config.d_head)


def shared_with(trace: Trace, name: str) -> str | None:
    """A parameter that this one is tied to; None if it is not tied."""
    shared = trace.about.shared
    if name in shared:
        return shared[name]
    return next((other for other, first in shared.items() if first == name), None)


def _cosine(first: Tensor | None, second: Tensor | None) -> float | None:
    """Cosine of two matrices taken as vectors: 1 for the same direction, about 0 for unrelated ones."""
    if first is None or second is None:
        return None
    a, b = first.double().flatten(), second.double().flatten()
    norms = float(a.norm() * b.norm())
    return round(float(a @ b) / norms, 3) + 0.0 if norms else None
