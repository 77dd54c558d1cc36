"""Application state shared by all routes: the model, the worker pools, stored traces, and bytes being sent."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from glassformer.hardware import lower_thread_priority
from glassformer.server.api_keys import APIKeys
from glassformer.server.http_errors import HTTPError, busy
from glassformer.server.limits import Limits
from glassformer.server.metrics import Metrics
from glassformer.server.tensor_slices import TensorBytes
from glassformer.server.trace_store import TraceStore
from glassformer.server.translation_service import ServedModel, TranslationService
from glassformer.server.worker_pool import WorkerPool

READ_THREADS = 2
"""Number of threads that copy parts of tensors."""
FLAG = {"enum": ["0", "1", "false", "true", ""]}
"""OpenAPI schema of a boolean query parameter: the values that `flag` accepts."""
IMMUTABLE = "private, max-age=31536000, immutable"
"""Cache-Control of everything that belongs to a trace: its id is never reused, so it never changes."""


class ServerState:
    """State of one server: limits, API keys, metrics, translation service, worker pools, stored traces."""

    def __init__(
        self, served: ServedModel, limits: Limits, keys: APIKeys | None = None, named: tuple[str, str] | None = None
    ) -> None:
        self.limits, self.keys = limits, keys or APIKeys([])
        self.metrics = Metrics()
        self.service = TranslationService(served, limits, self.metrics, named)
        seconds, metrics = limits.seconds, self.metrics
        self.translate_pool = WorkerPool("translating", limits.requests, limits.requests, seconds, metrics)
        capacity = limits.tracing + limits.tracing_waiting
        self.trace_pool = WorkerPool("tracing", limits.tracing, capacity, seconds, metrics, lower_thread_priority)
        self.read_pool = WorkerPool("reading", READ_THREADS, limits.requests, seconds, metrics)
        """Worker pool for work of milliseconds, which should not wait behind a trace."""
        self.store = TraceStore(limits.traces, limits.trace_bytes)
        self.outgoing = OutgoingBytes(limits.sending_bytes)
        self.boot = secrets.token_hex(8)
        """ETag of this start of the server, so that a browser does not reuse what it cached from another model."""
        for name, meaning, read in (
            ("requests_under_way", "Translation requests waiting or running.", lambda: self.translate_pool.count),
            ("traces_under_way", "Traces, what-ifs, figures waiting or running.", lambda: self.trace_pool.count),
            ("waiting_sentences", "Sentences waiting in the queue.", lambda: self.service.batcher.waiting),
            ("searching_sentences", "Sentences being searched.", lambda: self.service.batcher.under_way),
            ("traces", "Stored traces.", lambda: len(self.store)),
            ("trace_bytes", "Bytes of all stored traces.", lambda: self.store.size),
            ("sending_bytes", "Bytes of large responses being sent.", lambda: self.outgoing.size),
        ):
            self.metrics.gauge(name, meaning, read)

    @property
    def stopping(self) -> bool:
        return self.translate_pool.stopping

    def stop_pools(self) -> None:
        """Refuse all requests in progress, once the time to finish them has passed."""
        self.translate_pool.stop()
        self.trace_pool.stop()
        self.read_pool.stop()

    def close(self) -> None:
        self.service.batcher.stop()
        self.translate_pool.close()
        self.trace_pool.close()
        self.read_pool.close()


@dataclass
class OutgoingBytes:
    """Counter of bytes of large responses being sent, bounded because slow clients would fill the memory."""

    limit: int
    size: int = 0

    def take(self, size: int) -> None:
        if self.size + size > self.limit and self.size:
            raise busy("Other large responses are being sent. Try again in a moment.")
        self.size += size


@dataclass
class LargeBody:
    """The body of a large response."""

    content: bytes
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tensor: TensorBytes, **headers: str) -> "LargeBody":
        hyphenated = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(tensor.content, "application/octet-stream", tensor.headers | hyphenated)


class LargeResponse(Response):
    """Response that is sent in chunks, and counted in `OutgoingBytes` until the last one is sent."""

    CHUNK_BYTES = 2**16

    def __init__(self, large: LargeBody, outgoing: OutgoingBytes) -> None:
        super().__init__(
            headers=large.headers | {"content-length": str(len(large.content))}, media_type=large.media_type
        )
        self._large, self._outgoing = large, outgoing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = memoryview(self._large.content)
        self._outgoing.take(len(content))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for first in range(0, len(content), self.CHUNK_BYTES):
                chunk = bytes(content[first : first + self.CHUNK_BYTES])
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._outgoing.size -= len(content)


def json_response(body: BaseModel) -> Response:
    """A pydantic model as a JSON response: default values are omitted, and numbers that are not finite are null."""
    return Response(body.model_dump_json(exclude_defaults=True), media_type="application/json")


def request_body(*kinds: type[BaseModel], content_types: tuple[str, ...] = ("application/json",)) -> dict[str, Any]:
    """OpenAPI's description of the body that a route parses itself."""
    [kind] = kinds
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {name: {"schema": schema} for name in content_types}}}


def flag(name: str, text: str | None) -> bool:
    """Parse a boolean query parameter: 1 or true, 0 or false."""
    if text in (None, "", "0", "false"):
        return False
    if text in ("1", "true"):
        return True
    raise HTTPError(422, f"{name} = {text!r} should be 1 or 0.")
