"""What all routes share: a model that answers, desks with their places, traces, and what is being sent."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from glassformer.hardware import step_back
from glassformer.server.api_keys import APIKeys
from glassformer.server.http_errors import HTTPError, busy
from glassformer.server.limits import Limits
from glassformer.server.metrics import Metrics
from glassformer.server.tensor_slices import TensorBytes
from glassformer.server.trace_store import TraceStore
from glassformer.server.translation_service import ServedModel, TranslationService
from glassformer.server.worker_pool import WorkerPool

READERS = 2
"""Threads that copy parts of tensors."""
FLAG = {"enum": ["0", "1", "false", "true", ""]}
"""What `flag` takes, for the API's description."""
IMMUTABLE = "private, max-age=31536000, immutable"
"""A trace's id is never used again, so what it names never changes."""


class ServerState:
    """One server's parts."""

    def __init__(
        self, served: ServedModel, limits: Limits, keys: APIKeys | None = None, named: tuple[str, str] | None = None
    ) -> None:
        self.limits, self.keys = limits, keys or APIKeys([])
        self.metrics = Metrics()
        self.service = TranslationService(served, limits, self.metrics, named)
        self.desk = WorkerPool("translating", limits.requests, limits.requests, limits.seconds, self.metrics)
        both = limits.tracing + limits.tracing_waiting
        self.bench = WorkerPool("tracing", limits.tracing, both, limits.seconds, self.metrics, begin=step_back)
        self.shelf = WorkerPool("reading", READERS, limits.requests, limits.seconds, self.metrics)
        """For what takes milliseconds: it does not wait behind a trace."""
        self.store = TraceStore(limits.traces, limits.trace_bytes)
        self.outgoing = OutgoingBytes(limits.sending_bytes)
        self.boot = secrets.token_hex(8)
        """Of this start: what a browser kept of another model is not taken for this one's."""
        for name, meaning, ask in (
            ("requests_under_way", "Requests to translate that have a place.", lambda: self.desk.count),
            ("traces_under_way", "Traces, what-ifs and figures that have a place.", lambda: self.bench.count),
            ("waiting_sentences", "Sentences in the queue.", lambda: self.service.batcher.waiting),
            ("searching_sentences", "Sentences that the model is at.", lambda: self.service.batcher.under_way),
            ("traces", "Traces that are kept.", lambda: len(self.store)),
            ("trace_bytes", "Their bytes.", lambda: self.store.size),
            ("sending_bytes", "Bytes of large answers on their way.", lambda: self.outgoing.size),
        ):
            self.metrics.gauge(name, meaning, ask)

    @property
    def stopping(self) -> bool:
        return self.desk.stopping

    def refuse_all(self) -> None:
        """The time to stop has come: whoever still waits is refused."""
        self.desk.stop()
        self.bench.stop()
        self.shelf.stop()

    def close(self) -> None:
        self.service.batcher.stop()
        self.desk.close()
        self.bench.close()
        self.shelf.close()


@dataclass
class OutgoingBytes:
    """Large answers on their way: so many bytes at once, because slow readers would fill the memory."""

    most: int
    size: int = 0

    def take(self, size: int) -> None:
        if self.size + size > self.most and self.size:
            raise busy("Other large answers are being sent: ask again in a moment.")
        self.size += size


@dataclass
class LargeBody:
    """A large answer."""

    content: bytes
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sent: TensorBytes, **headers: str) -> "LargeBody":
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(sent.content, "application/octet-stream", sent.headers | named)


class LargeResponse(Response):
    """Sent in pieces, and counted until the last of them is gone."""

    PIECE = 2**16

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
            for first in range(0, len(content), self.PIECE):
                piece = bytes(content[first : first + self.PIECE])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._outgoing.size -= len(content)


def in_json(found: BaseModel) -> Response:
    """A model as JSON; what is as it is unless said is left out, and what is not finite is null."""
    return Response(found.model_dump_json(exclude_defaults=True), media_type="application/json")


def body_of(*kinds: type[BaseModel], content_types: tuple[str, ...] = ("application/json",)) -> dict[str, Any]:
    """For the API's description: what a route reads from its body."""
    [kind] = kinds
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {name: {"schema": schema} for name in content_types}}}


def flag(name: str, text: str | None) -> bool:
    """Of a query: 1 or true, 0 or false."""
    if text in (None, "", "0", "false"):
        return False
    if text in ("1", "true"):
        return True
    raise HTTPError(422, f"{name} = {text!r} is neither 1 nor 0.")
