"""Source and target tokens in the figure renderer's format."""

from glassformer.inspection.tracing.trace import Trace

Token = dict[str, str]
"""A token in the figure renderer's format: `Token` of frontend/src/figures/types.ts."""


def source_tokens(trace: Trace) -> list[Token]:
    return [{"text": piece} for piece in trace.source]


def target_tokens(trace: Trace) -> list[Token]:
    """For each target position, the token to predict and the input token before it."""
    return [{"text": written, "after": read} for written, read in zip(trace.target, trace.reads, strict=True)]
