"""Limits of a server. Each is an option with its meaning below it; `docs/serving.md` lists all of them."""

from typing import Annotated

from pydantic import Field

from glassformer.settings import Settings

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Settings):
    """Limits on what one client, and all clients together, may use."""

    connections: Count = 4096
    """Open connections; for one more, the one that has waited longest without a request is closed,
    or else the new one is answered with 503."""
    header_seconds: Seconds = 8
    """Time for a request's headers, from the connection or their first byte; then the connection is closed."""
    header_bytes: Annotated[int, Field(ge=1024)] = 16 * 1024
    """Size of a request's URL and headers, or of its trailers; more is answered with 431."""
    body_seconds: Seconds = 8
    """Time for a request's body, counted from its headers; then 408."""
    body_bytes: Count = 512 * 1024
    """Size of a request's body; more is answered with 413 before it is read."""
    reading_bytes: Count = 64 * 2**20
    """Size of all request bodies being received at once; more is answered with 503."""
    write_seconds: Seconds = 10
    """Time in which a client must read 48 kB of a response, and its end; then the connection is closed."""
    idle_seconds: Count = 5
    """Time for which a connection without a request is kept open (keep-alive)."""
    requests: Count = 64
    """Translation requests waiting or running; one more is answered with 503."""
    waiting: Count = 1024
    """Sentences of all requests waiting for the model; more are answered with 503."""
    texts: Count = 128
    """Texts per request; more are answered with 413."""
    characters: Count = 20_000
    """Characters in all texts of a request; more are answered with 413."""
    beam_tokens: Count = 100_000
    """Tokens in all texts of a request, times the beam size; more are answered with 413. A pronoun analysis
    translates its text as often as this allows, within `pronoun_translations`."""
    beam: Annotated[int, Field(ge=1, le=1000)] = 16
    """Largest beam size; a larger one is answered with 422."""
    n_best: Annotated[int, Field(ge=1, le=1000)] = 16
    """Largest number of translations per text; more are answered with 422."""
    seconds: Seconds = 60
    """Time per request, waiting included; then 503, and its remaining work is cancelled."""
    tracing: Count = 1
    """Traces, what-ifs, head rankings, figures, exported files and pronoun analyses computed at once."""
    tracing_waiting: Count = 16
    """Traces, what-ifs and other such computations that may wait; one more is answered with 503."""
    trace_tokens: Count = 128
    """Tokens of a traced text, or of its given target; more are answered with 413."""
    trace_beam: Annotated[int, Field(ge=1, le=1000)] = 8
    """Largest beam size of a traced search; a larger one is answered with 422."""
    changes: Count = 64
    """Changes in a what-if, including those of the trace it starts from; more are answered with 413."""
    pronoun_translations: Count = 1000
    """Translations per pronoun analysis; longer sentences get fewer trial words, or are answered with 422."""
    traces: Count = 32
    """Stored traces; the least recently used is evicted first."""
    trace_bytes: Count = 512 * 2**20
    """Size of all stored traces; a single trace larger than this is answered with 413."""
    answer_bytes: Count = 64 * 2**20
    """Size of one tensor, weight or exported file; more is answered with 413."""
    sending_bytes: Count = 256 * 2**20
    """Size of all tensors, weights and exported files being sent at once; more is answered with 503."""
    languages: Count = 16
    """Language pairs whose tokenizers are cached, for multilingual models."""
    stop_seconds: Seconds = 5
    """Time that running requests have when the server is stopped; then they are answered with 503."""
