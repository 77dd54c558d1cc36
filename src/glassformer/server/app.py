"""The app: routes put together, every error one sentence, the whole behind the guard."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer import __version__
from glassformer.errors import GlassformerError
from glassformer.inspection.tracing.trace_manifest import folded, weights_of
from glassformer.server import figure_routes as pictures
from glassformer.server import page_routes as static
from glassformer.server import pronoun_routes as who
from glassformer.server import trace_routes as explore
from glassformer.server import translate_routes as translating
from glassformer.server.http_errors import ClientDisconnectedError, HTTPError, printable
from glassformer.server.language_pairs import AUTO
from glassformer.server.load_shedding import WORK
from glassformer.server.middleware import AccessPolicy, Asked, ProtectionMiddleware, responses
from glassformer.server.openapi import describe
from glassformer.server.schemas import Health, Wrong
from glassformer.server.state import ServerState

DIRECT = {("GET", "/health"), *(("POST", path) for path in WORK)}
SILENT: Any = {"auto_configure": False, "tracing": False, "metrics": False, "logs": False}
"""FastAPI's own telemetry: nothing leaves this server but answers."""


def make_app(house: ServerState, hosts: Sequence[str] = ()) -> ProtectionMiddleware:
    """An ASGI app. `hosts`: names that it is known by, beside localhost and addresses in digits."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        house.close()

    app = FastAPI(
        title="glassformer",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,  # made in a thread, in static.py
        docs_url=None,  # they load from elsewhere; ours is /docs in static.py
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        telemetry=SILENT,
    )
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    _say_how_it_goes(app, house)
    translates = translating.routes(house)
    app.include_router(translates)
    app.include_router(explore.routes(house))
    app.include_router(pictures.routes(house))
    app.include_router(who.routes(house))
    served = house.service.served
    app.openapi = lambda: _description(app, house)  # type: ignore[method-assign]
    app.include_router(static.routes(static.page_files(), served.name, __version__, app.openapi, house.shelf))
    door = AccessPolicy(
        house.limits, house.metrics, house.keys, tuple(host.lower() for host in hosts), is_full=house.desk.is_full
    )
    return ProtectionMiddleware(app, door, direct([*app.routes, *translates.routes]))


def direct(routes: Sequence[BaseRoute]) -> dict[Asked, ASGIApp]:
    """What is asked most, straight to its function, which reads its request itself: what an app does around it takes
    longer than it does."""
    return {
        (method, route.path): _alone(route)
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
        if (method, route.path) in DIRECT
    }


def _alone(route: APIRoute) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"], request = route, Request(scope, receive)
        try:
            response = await route.endpoint(request)
        except GlassformerError as error:
            response = await _refused(request, error)
        await response(scope, receive, send)

    return answer


def _say_how_it_goes(app: FastAPI, house: ServerState) -> None:
    served = house.service.served

    stopping: dict[int | str, dict[str, Any]] = {503: {"model": Health | Wrong, "description": "Stopping, or busy."}}

    @app.get(
        "/health", response_model=Health, responses=stopping, summary="Whether the server lives and takes requests."
    )
    async def health(request: Request) -> Response:
        if house.stopping:
            found = Health(status="stopping", model=served.name, version=__version__)
            return JSONResponse(found.model_dump(), 503, {"retry-after": "1"})
        return JSONResponse(Health(status="ok", model=served.name, version=__version__).model_dump())

    @app.get("/metrics", response_class=PlainTextResponse, summary="Numbers, as Prometheus reads them.")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(house.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/api/model", responses=responses(401), summary="The model: its shape, its weights by name, its limits.")
    async def model(request: Request) -> Response:
        return await house.shelf.do(request, lambda: JSONResponse(about()))

    def about() -> dict[str, Any]:
        return {
            "name": served.name,
            "version": __version__,
            "config": served.translator.model.config.model_dump(mode="json"),
            "parameters": [
                one.model_dump(exclude_none=True) for one in folded(weights_of(served.translator.model), {})
            ],
            "languages": [AUTO, *(language["code"] for language in house.service.languages.listed())],
            "limits": house.limits.model_dump(mode="json"),
        }


def _description(app: FastAPI, house: ServerState) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app, house.limits, bool(house.keys))
    return app.openapi_schema


def as_refusal(error: Exception) -> HTTPError:
    """What a client is told of an error."""
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, HTTPException):
        return HTTPError(error.status_code, f"{error.detail}.")
    if isinstance(error, GlassformerError):
        return HTTPError(422, str(error))
    return HTTPError(422, "The address asks for something that is not understood.")


async def _refused(request: Request, error: Exception) -> Response:
    refusal = as_refusal(error)
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    return JSONResponse({"error": printable(str(refusal))}, refusal.status, headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # to nobody; as other servers write down a client that left


async def _broken(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "Something went wrong inside; the server's log has it."}, 500)


HANDLERS: dict[type[Exception], Any] = {
    GlassformerError: _refused,
    HTTPException: _refused,
    RequestValidationError: _refused,
    ClientDisconnectedError: _gone,
    Exception: _broken,
}
