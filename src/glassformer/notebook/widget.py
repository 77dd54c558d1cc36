"""The widget: the explorer's script, and a line to whoever answers it. Needs anywidget."""

from typing import Any

import anywidget
import traitlets

from glassformer.inspection import Trace
from glassformer.inspection.explorer import Frame, script
from glassformer.notebook.widget_messages import ReplySource, WidgetReply, WidgetRequest

PIECE = 1_000_000
"""Bytes of a message: a notebook's connection takes ten million, and others wait meanwhile."""
KEPT = 8_000_000
"""Bytes of the page that stands for the widget where there is no kernel; if it would be larger, it has less detail."""


class Explorer(anywidget.AnyWidget):
    """The explorer in a notebook's cell."""

    _esm = script()
    start = traitlets.Dict().tag(sync=True)
    saved = traitlets.Bool().tag(sync=True)

    def __init__(self, trace: Trace, answering: ReplySource, start: dict[str, Any], name: str = "") -> None:
        super().__init__(start=start, saved=answering.saved)
        self._trace, self._answering, self._name = trace, answering, name
        self.on_msg(self._heard)

    def _heard(self, widget: Any, content: Any, buffers: Any) -> None:
        """A request of the page, as `frontend/src/page/data/messages.ts` writes it."""
        if not (isinstance(content, dict) and isinstance(content.get("id"), str)):
            return
        body = content.get("body")
        asked = WidgetRequest(
            str(content.get("method", "GET")), str(content.get("path", "")), body if isinstance(body, str) else None
        )
        self._answering.ask(asked, lambda answer: self._tell(content["id"], answer))

    def _tell(self, identity: str, answer: WidgetReply) -> None:
        pieces = pieces_of(answer.body)
        for number, piece in enumerate(pieces):
            about = {"id": identity, "piece": number, "pieces": len(pieces)}
            self.send(about | {"status": answer.status, "headers": answer.headers}, buffers=[piece])

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Beside the widget, a page for where there is none: it stays when the notebook is exported."""
        found = super()._repr_mimebundle_(**options)
        bundle, metadata = found if isinstance(found, tuple) else (found or {}, {})
        return bundle | {"text/plain": repr(self), "text/html": self._page()}, metadata

    def _page(self) -> str:
        whole = Frame.of(self._trace, name=self._name, weights=False, largest=None)
        if len(whole.html) <= KEPT:
            return whole.html
        return Frame.of(self._trace, "attention", name=self._name, largest=None).html

    def __repr__(self) -> str:
        return f"<glassformer explorer: {self._trace.text}>"


def pieces_of(body: bytes) -> list[bytes]:
    """A body in messages that a notebook can carry; an empty one is one too."""
    return [body[first : first + PIECE] for first in range(0, len(body), PIECE)] or [b""]
