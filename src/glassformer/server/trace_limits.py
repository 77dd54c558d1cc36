"""What routes that trace have in common: bounds on tokens, what a kept trace has, files of it to take along."""

from collections.abc import Sequence

from glassformer.inspection.tracing.trace_manifest import Manifest, manifest, weights_of
from glassformer.model import ModelConfig
from glassformer.server.http_errors import HTTPError
from glassformer.server.limits import Limits
from glassformer.server.middleware import responses
from glassformer.server.state import IMMUTABLE, LargeBody, LargeResponse, ServerState
from glassformer.server.trace_store import StoredTrace

WRONG = responses(401, 404, 413, 422, 503)
"""What these routes may answer instead."""


def check_length(limits: Limits, tokens: int) -> None:
    """Refuse what is too long to be looked at."""
    if tokens > limits.trace_tokens:
        raise HTTPError(
            413, f"These are {tokens} tokens, and {limits.trace_tokens} are traced at most: take a part of it."
        )


def check_ids(ids: Sequence[int], config: ModelConfig, size: int) -> None:
    """Refuse tokens that are none of a vocabulary of this size."""
    if any(not 0 <= token < size or token == config.pad_id for token in ids):
        raise HTTPError(422, f"A change puts a token that is none of the model's {size}.")


def manifest_of(house: ServerState, kept: StoredTrace) -> Manifest:
    """Everything that a kept trace has, but its numbers."""
    return manifest(kept.identity, kept.trace, weights_of(house.service.served.translator.model), kept.tokenizer)


def small_enough(what: str, content: bytes, most: int, way_out: str = "take a shorter text") -> bytes:
    """The content of a file to take along, or a refusal."""
    if len(content) > most:
        raise HTTPError(413, f"The {what} has {len(content):,} bytes, and {most:,} are sent: {way_out}.")
    return content


def attached(house: ServerState, content: bytes, media_type: str, name: str) -> LargeResponse:
    """A file made of a trace, which never changes; a browser saves it under this name."""
    headers = {"cache-control": IMMUTABLE, "content-disposition": f'attachment; filename="{name}"'}
    return LargeResponse(LargeBody(content, media_type, headers), house.outgoing)
