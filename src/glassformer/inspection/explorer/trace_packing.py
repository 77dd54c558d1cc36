"""A trace as the explorer carries it: what it is of as JSON, its numbers as a safetensors file in gzip."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from glassformer.errors import InputError
from glassformer.inspection.tracing.trace import Detail, Trace, in_memory
from glassformer.inspection.tracing.trace_file import part_of, serialised
from glassformer.inspection.tracing.trace_manifest import manifest, weights_in

DETAILS: tuple[Detail, ...] = ("attention", "full")
SMALL_MODEL = 6_000_000
"""Bytes of weights that go with a trace: with them the page redoes every step; more would be the large part of it."""
EXACT = 12_000_000
"""Bytes of numbers that are kept as they are; more are rounded to float16, unless that is decided."""


@dataclass(frozen=True)
class Packed:
    """What a page carries."""

    about: str
    """JSON: the manifest, the model, and whether numbers were rounded."""
    numbers: bytes
    """A file of `Trace.save`, in gzip."""


def packed(
    trace: Trace, detail: Detail = "full", *, name: str = "", weights: bool | None = None, half: bool | None = None
) -> Packed:
    """A trace made ready to be carried. `weights` and `half` are decided by size where nobody says."""
    if detail not in DETAILS:
        raise InputError(f"The explorer's detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
    patterns = _weights_wanted(trace, detail, weights)
    part = _readable(part_of(trace, detail, parameters=patterns))
    rounded = _size(part) > EXACT if half is None else half
    if rounded:
        part = _readable(part_of(trace, detail, True, patterns))
    about = {
        "manifest": manifest("saved", part, weights_in(part)).model_dump(mode="json", exclude_none=True),
        "model": model_info(trace, name),
        "half": rounded,
    }
    return Packed(json.dumps(about, ensure_ascii=False), gzip.compress(serialised(part), 6, mtime=0))


def model_info(trace: Trace, name: str) -> dict[str, Any]:
    """What the page wants to know of a model."""
    return {
        "name": name,
        "version": trace.about.version,
        "config": trace.config.model_dump(mode="json"),
        "limits": {"trace_beam": trace.about.search.size, "trace_tokens": len(trace.source)},
    }


def _weights_wanted(trace: Trace, detail: Detail, wanted: bool | None) -> Sequence[str]:
    """Patterns of the weights that go with it."""
    if wanted is None:
        wanted = detail == "full" and sum(get().nbytes for get in trace.parameters.values()) <= SMALL_MODEL
    return ("*",) if wanted else ()


def _readable(part: Trace) -> Trace:
    """Without bfloat16, which a page cannot read."""
    kept, weights = (
        {name: one.float() if (one := get()).dtype == torch.bfloat16 else one for name, get in these.items()}
        for these in (part.kept, part.parameters)
    )
    return in_memory(part.about, kept, part.tree, weights)


def _size(part: Trace) -> int:
    return sum(get().nbytes for get in (*part.kept.values(), *part.parameters.values()))
