"""The tokens of both sides, as the renderer reads them."""

from glassformer.inspection.tracing.trace import Trace

Token = dict[str, str]
"""A `Token` of frontend/src/figures/types.ts."""


def source_tokens(trace: Trace) -> list[Token]:
    return [{"text": piece} for piece in trace.source]


def target_tokens(trace: Trace) -> list[Token]:
    """Each position's two tokens: after which it stands, and what it has to predict."""
    return [{"text": own, "after": before} for own, before in zip(trace.target, trace.reads, strict=True)]
