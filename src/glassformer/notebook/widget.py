"""Notebook widget: the explorer's script, and the messages between it and the kernel. Needs anywidget."""

from typing import Any

import anywidget
import traitlets

from glassformer.inspection import Trace
from glassformer.inspection.explorer import Frame, script
from glassformer.notebook.widget_messages import ReplySource, WidgetReply, WidgetRequest

MAX_MESSAGE_BYTES = 1_000_000
"""Maximum size of a message to the page. A notebook's connection takes ten million bytes, but other messages wait."""
MAX_STATIC_PAGE_BYTES = 8_000_000
"""Maximum size of the page that replaces the widget where there is no kernel; a larger one is made with less detail."""


class Explorer(anywidget.AnyWidget):
    """The explorer as a notebook widget (anywidget)."""

    _esm = script()
    start = traitlets.Dict().tag(sync=True)
    saved = traitlets.Bool().tag(sync=True)

    def __init__(self, trace: Trace, replies: ReplySource, start: dict[str, Any], name: str = "") -> None:
        super().__init__(start=start, saved=replies.saved)
        self._trace, self._replies, self._name = trace, replies, name
        self.on_msg(self._on_message)

    def _on_message(self, widget: Any, content: Any, buffers: Any) -> None:
        """Reply to a request from the page, as `frontend/src/page/data/messages.ts` writes it."""
        if not (isinstance(content, dict) and isinstance(content.get("id"), str)):
            return
        body = content.get("body")
        request = WidgetRequest(
            str(content.get("method", "GET")), str(content.get("path", "")), body if isinstance(body, str) else None
        )
        self._replies.ask(request, lambda reply: self._send_reply(content["id"], reply))

    def _send_reply(self, identity: str, reply: WidgetReply) -> None:
        pieces = pieces_of(reply.body)
        for number, piece in enumerate(pieces):
            content = {"id": identity, "piece": number, "pieces": len(pieces)}
            self.send(content | {"status": reply.status, "headers": reply.headers}, buffers=[piece])

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add a static page, shown where there is no widget, and kept when the notebook is exported."""
        representation = super()._repr_mimebundle_(**options)
        bundle, metadata = representation if isinstance(representation, tuple) else (representation or {}, {})
        return bundle | {"text/plain": repr(self), "text/html": self._page()}, metadata

    def _page(self) -> str:
        full = Frame.of(self._trace, name=self._name, weights=False, largest=None)
        if len(full.html) <= MAX_STATIC_PAGE_BYTES:
            return full.html
        return Frame.of(self._trace, "attention", name=self._name, largest=None).html

    def __repr__(self) -> str:
        return f"<glassformer explorer: {self._trace.text}>"


def pieces_of(body: bytes) -> list[bytes]:
    """Split a reply's body into messages that a notebook can carry; an empty body is one message."""
    return [body[first : first + MAX_MESSAGE_BYTES] for first in range(0, len(body), MAX_MESSAGE_BYTES)] or [b""]
