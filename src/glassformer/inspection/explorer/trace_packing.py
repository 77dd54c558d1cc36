"""Packs a trace for the explorer: a gzipped trace file whose metadata also has the manifest."""

import gzip
from typing import Any

from glassformer.errors import InputError
from glassformer.inspection.tracing.trace import Detail, Loaders, Trace
from glassformer.inspection.tracing.trace_file import reduce_trace, serialised
from glassformer.inspection.tracing.trace_manifest import manifest, weights_in

DETAILS: tuple[Detail, ...] = ("attention", "full")
MAX_INCLUDED_WEIGHT_BYTES = 6_000_000
"""Default size up to which model parameters are included, so that the page can recompute every step."""
MAX_EXACT_BYTES = 12_000_000
"""Default size up to which tensors keep their precision; larger traces are rounded to float16."""


def packed(
    trace: Trace, detail: Detail = "full", *, name: str = "", weights: bool | None = None, half: bool | None = None
) -> bytes:
    """Pack a trace for a page of the explorer. `weights` (include parameters) and `half` (float16) default by size."""
    if detail not in DETAILS:
        raise InputError(f"Unknown detail {detail!r} for the explorer; choose one of {', '.join(DETAILS)}.")
    if weights is None:
        weights = detail == "full" and _bytes(trace.parameters) <= MAX_INCLUDED_WEIGHT_BYTES
    patterns = ("*",) if weights else ()
    part = reduce_trace(trace, detail, parameters=patterns)
    rounded = _bytes(part.loaders) + _bytes(part.parameters) > MAX_EXACT_BYTES if half is None else half
    if rounded:
        part = reduce_trace(trace, detail, True, patterns)
    page = {
        "manifest": manifest("saved", part, weights_in(part)).model_dump(mode="json", exclude_none=True),
        "model": model_info(trace, name),
        "half": rounded,
    }
    return gzip.compress(serialised(part, page), 6, mtime=0)


def model_info(trace: Trace, name: str) -> dict[str, Any]:
    """The model information that the explorer shows."""
    return {
        "name": name,
        "version": trace.about.version,
        "config": trace.config.model_dump(mode="json"),
        "limits": {"trace_beam": trace.about.search.size, "trace_tokens": len(trace.source)},
    }


def _bytes(loaders: Loaders) -> int:
    return sum(load().nbytes for load in loaders.values())
