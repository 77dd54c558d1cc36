"""Limits of what is traced: the number of tokens, and valid token ids."""

from collections.abc import Sequence

from glassformer.model import ModelConfig
from glassformer.server.http_errors import HTTPError
from glassformer.server.limits import Limits


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
