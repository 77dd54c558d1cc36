"""Helpers of the trace routes: token limits, manifests of stored traces, and file downloads."""

from collections.abc import Sequence

from glassformer.inspection.tracing.trace_manifest import Manifest, manifest, weights_of
from glassformer.model import ModelConfig
from glassformer.server.http_errors import HTTPError
from glassformer.server.limits import Limits
from glassformer.server.middleware import responses
from glassformer.server.state import IMMUTABLE, LargeBody, LargeResponse, ServerState
from glassformer.server.trace_store import StoredTrace

ERROR_RESPONSES = responses(401, 404, 413, 422, 503)
"""Error responses of the trace routes, for OpenAPI."""


def check_length(limits: Limits, tokens: int) -> None:
    """Refuse a text of more tokens than may be traced."""
    if tokens > limits.trace_tokens:
        raise HTTPError(
            413, f"The text has {tokens} tokens; at most {limits.trace_tokens} can be traced. Send a shorter text."
        )


def check_ids(ids: Sequence[int], config: ModelConfig, size: int) -> None:
    """Refuse padding, and token ids outside a vocabulary of this size."""
    for token in ids:
        if not 0 <= token < size or token == config.pad_id:
            raise HTTPError(422, f"Token id {token} is padding or out of range (0 to {size - 1}).")


def manifest_of(state: ServerState, stored: StoredTrace) -> Manifest:
    """The manifest of a stored trace: everything but its numbers."""
    model = state.service.served.translator.model
    return manifest(stored.identity, stored.trace, weights_of(model), stored.tokenizer)


def check_file_size(what: str, content: bytes, limit: int, advice: str = "Use a shorter text.") -> bytes:
    """Refuse a file to download that is too large; returns its content."""
    if len(content) > limit:
        raise HTTPError(413, f"The {what} has {len(content):,} bytes; at most {limit:,} are sent. {advice}")
    return content


def attachment(state: ServerState, content: bytes, media_type: str, name: str) -> LargeResponse:
    """Response that downloads a file made from a trace, which never changes, under this name."""
    headers = {"cache-control": IMMUTABLE, "content-disposition": f'attachment; filename="{name}"'}
    return LargeResponse(LargeBody(content, media_type, headers), state.outgoing)
