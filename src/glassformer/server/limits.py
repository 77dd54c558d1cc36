"""What a server allows. Every bound is an option here, with its meaning; `docs/serving.md` lists them all."""

from typing import Annotated

from pydantic import Field

from glassformer.settings import Settings

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limits(Settings):
    """Bounds on what one client, and all of them together, may take."""

    connections: Count = 4096
    """Connections open at once; for one more, one that has asked for nothing yet is cut, or else it is answered 503."""
    header_seconds: Seconds = 8
    """Until a request's headers are there, from the connection or from its first byte; then it is cut."""
    header_bytes: Annotated[int, Field(ge=1024)] = 16 * 1024
    """Of a request's headers; more is answered 431, or 400."""
    body_seconds: Seconds = 8
    """Until a request's body is there, from its headers on; then 408."""
    body_bytes: Count = 512 * 1024
    """Of a request's body; more is answered 413 before it is read."""
    reading_bytes: Count = 64 * 2**20
    """Of all bodies that are being read; more are answered 503."""
    write_seconds: Seconds = 10
    """A client must take 48 kB of an answer in this time, and its end; else it is cut."""
    idle_seconds: Count = 5
    """A connection without a request is kept open."""
    requests: Count = 64
    """Requests to translate that are waiting or under way; one more is answered 503."""
    waiting: Count = 1024
    """Sentences of all requests that wait for the model; more are answered 503."""
    texts: Count = 128
    """Texts in one request; more are answered 413."""
    characters: Count = 20_000
    """Of all texts in one request; more are answered 413."""
    beam: Annotated[int, Field(ge=1, le=1000)] = 16
    """Hypotheses that a search keeps, at most; a larger beam is answered 422."""
    n_best: Annotated[int, Field(ge=1, le=1000)] = 16
    """Translations of a text, at most; more are answered 422."""
    seconds: Seconds = 60
    """For one request, waiting included; then 503, and what it had under way is given up."""
    tracing: Count = 1
    """Traces, what-ifs, rankings of heads, figures, files and answers to who a word is, made at once."""
    tracing_waiting: Count = 16
    """Of these, how many may wait; one more is answered 503."""
    trace_tokens: Count = 128
    """Tokens of a text, or of a given target, that is traced; more are answered 413."""
    trace_beam: Annotated[int, Field(ge=1, le=1000)] = 8
    """Hypotheses that a traced search keeps, at most."""
    changes: Count = 64
    """Changes of a what-if, with those that it stands on."""
    who_translations: Count = 1000
    """Translations that asking who a word is may take; long sentences have fewer words tried, or are answered 422."""
    traces: Count = 32
    """Traces that are kept; the one that was not asked for longest goes first."""
    trace_bytes: Count = 512 * 2**20
    """Of all traces that are kept; one that is larger alone is answered 413."""
    answer_bytes: Count = 64 * 2**20
    """Of one tensor, weight or trace file that is sent; more is answered 413."""
    sending_bytes: Count = 256 * 2**20
    """Of all of these that are being sent; more are answered 503."""
    languages: Count = 16
    """Pairs of languages whose tokenizers are kept, where a model knows many."""
    stop_seconds: Seconds = 5
    """When the server is told to stop, requests under way have this long; then they are answered 503."""
