"""Replies to the widget's requests: from the server's routes without a socket, or from one packed trace."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from glassformer.inspection import inspect

if TYPE_CHECKING:
    from glassformer.translator import Translator


@dataclass(frozen=True)
class WidgetRequest:
    """A request of the notebook widget, as the page would send it to a server."""

    method: str
    path: str
    body: str | None = None


@dataclass
class WidgetReply:
    """The reply to a request of the notebook widget."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Reply = Callable[[WidgetReply], None]


class ReplySource(Protocol):
    """Replies to the notebook widget's requests, at once or later, from any thread."""

    saved: bool
    """Whether replies come from one saved trace only, without a model to make others."""

    def ask(self, request: WidgetRequest, reply: Reply) -> None: ...


class RepliesFromTrace:
    """Replies to the notebook widget with one trace, packed as in a saved page."""

    saved = True

    def __init__(self, packed_trace: bytes) -> None:
        self._reply = WidgetReply(200, body=packed_trace)

    def ask(self, request: WidgetRequest, reply: Reply) -> None:
        reply(self._reply if request.path == "/trace.gz" else WidgetReply(404))


class RepliesFromModel:
    """Replies to the notebook widget through the server's routes, in a thread of its own; no socket is opened."""

    saved = False

    def __init__(self, translator: "Translator", name: str) -> None:
        from glassformer.server.app import make_app
        from glassformer.server.limits import Limits
        from glassformer.server.state import ServerState
        from glassformer.server.translation_service import ServedModel

        self.translator, self.name = translator, name
        served = ServedModel(name or "glassformer", translator, inspect(translator).alignment_heads)
        self._app = make_app(ServerState(served, Limits()))
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="explorer", daemon=True).start()

    def ask(self, request: WidgetRequest, reply: Reply) -> None:
        asyncio.run_coroutine_threadsafe(self._respond(request, reply), self._loop)

    async def _respond(self, request: WidgetRequest, reply: Reply) -> None:
        body, response, ended = (request.body or "").encode(), WidgetReply(500), asyncio.Event()
        received = False

        async def receive() -> dict[str, Any]:
            nonlocal received
            if received:
                await ended.wait()  # a widget never disconnects
                return {"type": "http.disconnect"}
            received = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                response.status = message["status"]
                headers = message["headers"]
                response.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
            else:
                response.body += message.get("body", b"")

        try:
            await self._app(_scope(request, len(body)), receive, send)
        finally:
            ended.set()
            reply(response)


def _scope(request: WidgetRequest, size: int) -> dict[str, Any]:
    parts = urlsplit(request.path)
    headers = [(b"host", b"localhost")]
    if size:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 0),
    }
