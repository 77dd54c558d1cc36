"""Who answers a widget: the server's own routes without a server, or what was packed of one trace."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from glassformer.inspection.alignment.word_alignment import default_alignment_heads
from glassformer.inspection.explorer import Packed

if TYPE_CHECKING:
    from glassformer.translator import Translator


@dataclass(frozen=True)
class WidgetRequest:
    """A request, as the page would send it to a server."""

    method: str
    path: str
    body: str | None = None


@dataclass
class WidgetReply:
    """What comes back."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Reply = Callable[[WidgetReply], None]


class ReplySource(Protocol):
    """Hears a request and replies, now or later, from whatever thread."""

    saved: bool
    """Whether there is one trace and nobody to ask for others."""

    def ask(self, asked: WidgetRequest, reply: Reply) -> None: ...


class RepliesFromTrace:
    """One trace, as a saved page would carry it."""

    saved = True

    def __init__(self, carried: Packed) -> None:
        self._found = {"/saved.json": carried.about.encode(), "/saved.gz": carried.numbers}

    def ask(self, asked: WidgetRequest, reply: Reply) -> None:
        found = self._found.get(asked.path)
        reply(WidgetReply(404) if found is None else WidgetReply(200, body=found))


class RepliesFromModel:
    """A translator behind the routes of `glassformer.server`, called in a thread of their own: nothing listens."""

    saved = False

    def __init__(self, translator: "Translator", name: str) -> None:
        from glassformer.server.app import make_app
        from glassformer.server.limits import Limits
        from glassformer.server.state import ServerState
        from glassformer.server.translation_service import ServedModel

        self.name = name
        served = ServedModel(name or "glassformer", translator, default_alignment_heads(translator.model.config))
        self._app = make_app(ServerState(served, Limits()))
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="explorer", daemon=True).start()

    def ask(self, asked: WidgetRequest, reply: Reply) -> None:
        asyncio.run_coroutine_threadsafe(self._answered(asked, reply), self._loop)

    async def _answered(self, asked: WidgetRequest, reply: Reply) -> None:
        body, answer, over = (asked.body or "").encode(), WidgetReply(500), asyncio.Event()
        told = False

        async def receive() -> dict[str, Any]:
            nonlocal told
            if told:
                await over.wait()  # a widget never hangs up
                return {"type": "http.disconnect"}
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        try:
            await self._app(_scope(asked, len(body)), receive, send)
        finally:
            over.set()
            reply(answer)


def _scope(asked: WidgetRequest, size: int) -> dict[str, Any]:
    parts = urlsplit(asked.path)
    headers = [(b"host", b"localhost")]
    if size:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 0),
    }
