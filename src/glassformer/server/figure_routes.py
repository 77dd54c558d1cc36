"""Routes for what is taken along of a trace: a picture, all of them on a page, the explorer as a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from fastapi import APIRouter, Path, Query, Request, Response

from glassformer.errors import GlassformerError
from glassformer.inspection import explorer
from glassformer.inspection.figures import VIEWS, FigureOptions
from glassformer.server.http_errors import HTTPError
from glassformer.server.middleware import FIGURE_POLICY, responses
from glassformer.server.state import FLAG, IMMUTABLE, ServerState, flag
from glassformer.server.trace_limits import WRONG, attached, small_enough
from glassformer.server.trace_store import StoredTrace

NUMBER = {"pattern": "^[0-9]{1,9}$"}
PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page."}
}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "image/svg+xml": {"schema": {"type": "string"}},
            "image/png": {"schema": {"type": "string", "format": "binary"}},
        },
        "description": "The picture.",
    }
}


_meanings = cache(FigureOptions.meanings)


def _option(name: str, schema: dict[str, Any] | None = None) -> Any:
    """An option of a figure in an address, with its meaning."""
    return Query(None, description=_meanings()[name], json_schema_extra=schema)


def routes(house: ServerState) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/api/explore/{id}/figure/{view}.{kind}",
        response_class=Response,
        responses={**WRONG, **responses(501), **PICTURE},
        summary="A picture of a trace, as SVG or PNG; what `glassformer.inspection.figures` draws.",
    )
    async def figure(
        request: Request,
        id: str,
        view: str = Path(description="What is drawn.", json_schema_extra={"enum": [*VIEWS]}),
        kind: str = Path(description="The kind of file.", json_schema_extra={"enum": ["svg", "png"]}),
        at: str | None = _option("at"),
        head: str | None = _option("head", NUMBER),
        token: str | None = _option("token"),
        likeliest: str | None = _option("likeliest", NUMBER),
        width: str | None = _option("width", {"enum": ["86mm", "178mm"]}),
        dark: str | None = _option("dark", FLAG),
        caption: str | None = _option("caption", FLAG),
        scale: str | None = Query(None, description="Of a .png: 1 to 4.", json_schema_extra={"pattern": "^[1-4]$"}),
    ) -> Response:
        if kind not in ("svg", "png"):
            raise HTTPError(404, "A figure is .svg or .png.")
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
        kept, size = house.store.get(id), _number("scale", scale) or 2
        if not 1 <= size <= 4:
            raise HTTPError(422, f"scale = {size} is not from 1 to 4.")
        content = await house.bench.do(request, lambda: _drawn(kept, view, kind, size, options))
        media_type = "image/svg+xml" if kind == "svg" else "image/png"
        headers = {"cache-control": IMMUTABLE, "content-security-policy": FIGURE_POLICY}
        return Response(content, media_type=media_type, headers=headers)

    @router.get(
        "/api/explore/{id}/story.html",
        response_class=Response,
        responses={**WRONG, **responses(501), **PAGE},
        summary="All pictures of a trace on one page to be read from top to bottom.",
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
        kept = house.store.get(id)
        content = await house.bench.do(request, lambda: _story(house, kept, options))
        return attached(house, content, "text/html; charset=utf-8", f"story-{kept.identity}.html")

    @router.get(
        "/api/explore/{id}/explorer.html",
        response_class=Response,
        responses={**WRONG, **PAGE},
        summary="The explorer of a trace as one HTML file that loads nothing.",
    )
    async def page(
        request: Request,
        id: str,
        detail: str = Query("full", description="How much of it.", json_schema_extra={"enum": ["attention", "full"]}),
    ) -> Response:
        kept, served = house.store.get(id), house.service.served
        content = await house.bench.do(request, lambda: _page(house, kept, detail, served.name))
        return attached(house, content, "text/html; charset=utf-8", f"explorer-{kept.identity}.html")

    return router


def _drawn(kept: StoredTrace, view: str, kind: str, scale: int, options: dict[str, Any]) -> bytes:
    with _drawing():
        drawn = kept.trace.figure(view, **options)
        return drawn.svg.encode() if kind == "svg" else drawn.png(scale)


def _story(house: ServerState, kept: StoredTrace, options: dict[str, Any]) -> bytes:
    with _drawing():
        content = kept.trace.story(name=house.service.served.name, **options).html.encode()
    return small_enough("page", content, house.limits.answer_bytes)


@contextmanager
def _drawing() -> Iterator[None]:
    try:
        yield
    except GlassformerError as error:
        if type(error) is GlassformerError:  # what is missing here, not what was asked
            raise HTTPError(501, str(error)) from None
        raise


def _page(house: ServerState, kept: StoredTrace, detail: str, name: str) -> bytes:
    kind = next((known for known in explorer.DETAILS if known == detail), None)
    if kind is None:
        raise HTTPError(422, f"detail is one of {', '.join(explorer.DETAILS)}, and not {detail!r}.")
    content = explorer.page_of(kept.trace, explorer.packed(kept.trace, kind, name=name), name).encode()
    return small_enough("page", content, min(explorer.LARGEST, house.limits.answer_bytes), "ask for detail=attention")


def _token(text: str | None) -> int | str | None:
    return _number("token", text) if (text or "").isdecimal() else text


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise HTTPError(422, f"{name} = {text!r} is not a whole number.")
    return int(text)
