"""Routes that export a trace: one figure, all figures on a page, the explorer as an HTML file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter, Path, Query, Request, Response

from glassformer.errors import GlassformerError
from glassformer.figure_catalogue import VIEWS
from glassformer.inspection import explorer
from glassformer.inspection.figures import FigureOptions
from glassformer.server.http_errors import HTTPError
from glassformer.server.http_responses import IMMUTABLE, attachment, check_file_size
from glassformer.server.middleware import FIGURE_POLICY
from glassformer.server.openapi import TRACE_ERRORS, responses
from glassformer.server.request_parsing import FLAG, flag
from glassformer.server.state import ServerState
from glassformer.server.trace_store import StoredTrace

NUMBER = {"pattern": "^[0-9]{1,9}$"}
HTML = "text/html; charset=utf-8"
HTML_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page."}
}
IMAGE_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "image/svg+xml": {"schema": {"type": "string"}},
            "image/png": {"schema": {"type": "string", "format": "binary"}},
        },
        "description": "The figure.",
    }
}


_VIEW_LIST = "; ".join(f"`{view.name}` ({view.summary})" for view in VIEWS.values())


def _option(name: str, schema: dict[str, Any] | None = None) -> Any:
    """Declare an option of figures as a query parameter, with its description."""
    return Query(None, description=FigureOptions.meanings()[name], json_schema_extra=schema)


def routes(state: ServerState) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/api/explore/{id}/figure/{view}.{kind}",
        response_class=Response,
        responses={**TRACE_ERRORS, **responses(501), **IMAGE_RESPONSE},
        summary="A figure of a trace as SVG or PNG, drawn by `glassformer.inspection.figures`.",
    )
    async def figure(
        request: Request,
        id: str,
        view: str = Path(description=f"What to draw: {_VIEW_LIST}.", json_schema_extra={"enum": [*VIEWS]}),
        kind: str = Path(description="The file format.", json_schema_extra={"enum": ["svg", "png"]}),
        at: str | None = _option("at"),
        head: str | None = _option("head", NUMBER),
        token: str | None = _option("token"),
        likeliest: str | None = _option("likeliest", NUMBER),
        width: str | None = _option("width", {"enum": ["86mm", "178mm"]}),
        dark: str | None = _option("dark", FLAG),
        caption: str | None = _option("caption", FLAG),
        scale: str | None = Query(
            None, description="Scale of a PNG, from 1 to 4.", json_schema_extra={"pattern": "^[1-4]$"}
        ),
    ) -> Response:
        if kind not in ("svg", "png"):
            raise HTTPError(404, f"{kind!r} is not a figure format. Expected svg or png.")
        given = {
            "at": at,
            "head": _number("head", head),
            "token": _token(token),
            "likeliest": _number("likeliest", likeliest),
            "width": width,
            "dark": None if dark is None else flag("dark", dark),
            "caption": None if caption is None else flag("caption", caption),
        }
        options = {name: value for name, value in given.items() if value is not None}
        stored, png_scale = state.store.get(id), _number("scale", scale) or 2
        if not 1 <= png_scale <= 4:
            raise HTTPError(422, f"scale = {png_scale} is out of range (1 to 4).")
        content = await state.trace_pool.run(request, lambda: _draw(stored, view, kind, png_scale, options))
        media_type = "image/svg+xml" if kind == "svg" else "image/png"
        headers = {"cache-control": IMMUTABLE, "content-security-policy": FIGURE_POLICY}
        return Response(content, media_type=media_type, headers=headers)

    @router.get(
        "/api/explore/{id}/story.html",
        response_class=Response,
        responses={**TRACE_ERRORS, **responses(501), **HTML_RESPONSE},
        summary="All figures of a trace on one page.",
    )
    async def story(
        request: Request,
        id: str,
        at: str | None = _option("at"),
        head: str | None = _option("head", NUMBER),
        token: str | None = _option("token"),
        dark: str | None = _option("dark", FLAG),
    ) -> Response:
        options = {"at": at, "head": _number("head", head), "token": _token(token), "dark": flag("dark", dark)}
        stored = state.store.get(id)
        content = await state.trace_pool.run(request, lambda: _story(state, stored, options))
        return attachment(state.outgoing, content, f"story-{stored.identity}.html", HTML)

    @router.get(
        "/api/explore/{id}/explorer.html",
        response_class=Response,
        responses={**TRACE_ERRORS, **HTML_RESPONSE},
        summary="The explorer of a trace as one self-contained HTML file.",
    )
    async def page(
        request: Request,
        id: str,
        detail: str = Query(
            "full", description="How much of the trace.", json_schema_extra={"enum": [*explorer.DETAILS]}
        ),
    ) -> Response:
        stored, served = state.store.get(id), state.service.served
        content = await state.trace_pool.run(request, lambda: _explorer_page(state, stored, detail, served.name))
        return attachment(state.outgoing, content, f"explorer-{stored.identity}.html", HTML)

    return router


def _draw(stored: StoredTrace, view: str, kind: str, scale: int, options: dict[str, Any]) -> bytes:
    with _figure_errors():
        figure = stored.trace.figure(view, **options)
        return figure.svg.encode() if kind == "svg" else figure.png(scale)


def _story(state: ServerState, stored: StoredTrace, options: dict[str, Any]) -> bytes:
    with _figure_errors():
        content = stored.trace.story(name=state.service.served.name, **options).html.encode()
    return check_file_size("page", content, state.limits.answer_bytes)


@contextmanager
def _figure_errors() -> Iterator[None]:
    try:
        yield
    except GlassformerError as error:
        if type(error) is GlassformerError:  # something is missing on the server; the request is not at fault
            raise HTTPError(501, str(error)) from None
        raise


def _explorer_page(state: ServerState, stored: StoredTrace, detail: str, name: str) -> bytes:
    kind = next((known for known in explorer.DETAILS if known == detail), None)
    if kind is None:
        raise HTTPError(422, f"detail = {detail!r} is not one of {', '.join(explorer.DETAILS)}.")
    content = explorer.page_of(stored.trace, explorer.packed(stored.trace, kind, name=name), name).encode()
    limit = min(explorer.MAX_PAGE_BYTES, state.limits.answer_bytes)
    return check_file_size("page", content, limit, "Request detail=attention.")


def _token(text: str | None) -> int | str | None:
    return _number("token", text) if (text or "").isdecimal() else text


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise HTTPError(422, f"{name} = {text!r} is not a whole number.")
    return int(text)
