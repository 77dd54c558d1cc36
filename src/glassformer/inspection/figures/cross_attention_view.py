"""Data for the figure `cross-attention`: K and V of each decoder layer, computed from the encoder's output."""

from typing import Any

from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.figure_tokens import source_tokens
from glassformer.inspection.figures.tensor_rows import matrix, weight
from glassformer.inspection.tracing.trace import Trace
from glassformer.model.attention import merge_heads
from glassformer.model.dims import Tensor


def cross_attention_data(trace: Trace, options: FigureOptions) -> dict[str, Any]:
    """Data of the cross-attention figure for the renderer: `CrossAttentionData` of frontend/src/figures/types.ts."""
    top = trace.config.encoder_layers - 1
    encoder = f"encoder.layers.{top}.self_attention"
    return {
        "tokens": source_tokens(trace),
        "memory": matrix(trace["memory"]),
        "heads": trace.config.n_heads,
        "encoderTop": {"layer": top} | {f"w{letter}": _projection(trace, encoder, letter) for letter in "kv"},
        "layers": [_keys_values(trace, layer, encoder) for layer in range(trace.config.decoder_layers)],
    }


def _keys_values(trace: Trace, layer: int, encoder: str) -> dict[str, Any]:
    """K and V of one decoder layer for the renderer: `LayerKeysValues` of frontend/src/figures/types.ts."""
    at = f"decoder.layers.{layer}.cross_attention"
    data: dict[str, Any] = {"layer": layer}
    for letter in "kv":
        data[f"w{letter}"] = _projection(trace, at, letter)
        data[letter] = matrix(merge_heads(trace[f"{at}.{letter}"][None])[0])
        data[f"{letter}SharedWith"] = shared_with(trace, f"{at}.{letter}_proj.weight")
        data[f"{letter}Cosine"] = _cosine(*(trace.parameter(f"{name}.{letter}_proj.weight") for name in (at, encoder)))
    return data


def _projection(trace: Trace, at: str, letter: str) -> dict[str, Any]:
    """W_K or W_V of an attention as in the paper (D × H·K), for the renderer."""
    config = trace.config
    parameter = trace.parameter(f"{at}.{letter}_proj.weight")
    return weight(None if parameter is None else parameter.T, config.d_model, config.n_heads * config.d_head)


def shared_with(trace: Trace, name: str) -> str | None:
    """Name of a parameter that this one is tied to; None if it is not tied."""
    shared = trace.about.shared
    return shared.get(name) or next((other for other, first in shared.items() if first == name), None)


def _cosine(first: Tensor | None, second: Tensor | None) -> float | None:
    """Cosine of two matrices taken as vectors: 1 for the same direction, about 0 for unrelated ones."""
    if first is None or second is None:
        return None
    a, b = first.double().flatten(), second.double().flatten()
    norms = float(a.norm() * b.norm())
    return round(float(a @ b) / norms, 3) + 0.0 if norms else None
