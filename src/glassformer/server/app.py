"""The ASGI application: all routes and error handlers, wrapped in the protection middleware."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer import __version__, figure_catalogue
from glassformer.errors import GlassformerError, MissingPackageError
from glassformer.inspection.tracing.tensor_groups import group_layers
from glassformer.model.parameter_shapes import parameter_shapes
from glassformer.server import page_routes, translate_routes
from glassformer.server.access_log import AccessLog
from glassformer.server.access_policy import AccessPolicy, ServerAddress
from glassformer.server.http_errors import ClientDisconnectedError, HTTPError, printable
from glassformer.server.inspection_routes import InspectionRoutes
from glassformer.server.language_pairs import AUTO
from glassformer.server.load_shedding import TRANSLATE_PATHS
from glassformer.server.middleware import INTERNAL_ERROR, ProtectionMiddleware, RouteKey
from glassformer.server.openapi import describe, responses
from glassformer.server.schemas import ErrorResponse, Health
from glassformer.server.state import ServerState

DEFAULT_ADDRESS = ServerAddress()
DIRECT_ROUTES = {("GET", "/health"), *(("POST", path) for path in TRANSLATE_PATHS)}
NO_TELEMETRY: Any = {"auto_configure": False, "tracing": False, "metrics": False, "logs": False}
"""Options that turn off FastAPI's own telemetry: this server sends nothing but responses."""


def make_app(
    state: ServerState, address: ServerAddress = DEFAULT_ADDRESS, log: AccessLog | None = None
) -> ProtectionMiddleware:
    """Make the ASGI app, reached under this address; `log` gets a line for each request."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        state.close()

    app = FastAPI(
        title="glassformer",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,  # served by page_routes, which builds it in a thread
        docs_url=None,  # FastAPI's page loads from other sites; page_routes serves our own /docs
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        telemetry=NO_TELEMETRY,
    )
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    _add_status_routes(app, state)
    translation = translate_routes.routes(state)
    app.include_router(translation)
    inspection = InspectionRoutes(app, state)
    app.router.routes.append(inspection)
    app.openapi = lambda: _openapi(app, inspection, address.root_path)  # type: ignore[method-assign]
    name, files = state.service.served.name, page_routes.page_files()
    app.include_router(page_routes.routes(files, name, __version__, app.openapi, state.read_pool))
    policy = AccessPolicy(state.limits, state.metrics, state.keys, address, log, state.translate_pool.is_full)
    return ProtectionMiddleware(app, policy, direct_endpoints([*app.routes, *translation.routes]))


def direct_endpoints(routes: Sequence[BaseRoute]) -> dict[RouteKey, ASGIApp]:
    """Endpoints of the most frequent requests, to be called without FastAPI.

    FastAPI's own processing takes longer than they do. They parse their requests themselves.
    """
    return {
        (method, route.path): _without_fastapi(route)
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
        if (method, route.path) in DIRECT_ROUTES
    }


def _without_fastapi(route: APIRoute) -> ASGIApp:
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"], request = route, Request(scope, receive)
        try:
            response = await route.endpoint(request)
        except GlassformerError as error:
            response = await _error_response(request, error)
        await response(scope, receive, send)

    return endpoint


def _add_status_routes(app: FastAPI, state: ServerState) -> None:
    served = state.service.served

    stopping: dict[int | str, dict[str, Any]] = {
        503: {"model": Health | ErrorResponse, "description": "The server is stopping or overloaded."}
    }

    @app.get(
        "/health", response_model=Health, responses=stopping, summary="Whether the server is up and accepts requests."
    )
    async def health(request: Request) -> Response:
        if state.stopping:
            status = Health(status="stopping", model=served.name, version=__version__)
            return JSONResponse(status.model_dump(), 503, {"retry-after": "1"})
        return JSONResponse(Health(status="ok", model=served.name, version=__version__).model_dump())

    @app.get("/metrics", response_class=PlainTextResponse, summary="Metrics in Prometheus's text format.")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get(
        "/api/model",
        responses=responses(401),
        summary="The model's configuration, weights, engine, limits and figures.",
    )
    async def model(request: Request) -> Response:
        return await state.read_pool.run(request, lambda: JSONResponse(model_info()))

    def model_info() -> dict[str, Any]:
        config = served.translator.config
        parameters = {name: (shape, True) for name, shape in parameter_shapes(config, every_name=True).items()}
        return {
            "name": served.name,
            "version": __version__,
            "engine": asdict(state.service.engine),
            "config": config.model_dump(mode="json"),
            "parameters": [group.model_dump(exclude_none=True) for group in group_layers(parameters, {})],
            "shortlist": served.translator.uses_shortlist,
            "languages": [AUTO, *(language["code"] for language in state.service.languages.listed())],
            "limits": state.limits.model_dump(mode="json"),
            "figures": figure_catalogue.for_explorer(),
        }


def _openapi(app: FastAPI, inspection: InspectionRoutes, root_path: str) -> dict[str, Any]:
    if app.openapi_schema is None:
        inspection.add()
        state = inspection.state
        app.openapi_schema = describe(app, state.limits, bool(state.keys), root_path)
    return app.openapi_schema


ROUTING_ERRORS = {
    404: "There is nothing at this path. /docs lists all routes.",
    405: "This path does not support this method. /docs lists all routes.",
}


def as_http_error(error: Exception) -> HTTPError:
    """The HTTP error that a client gets for this exception."""
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, HTTPException):
        return HTTPError(error.status_code, ROUTING_ERRORS.get(error.status_code, f"{error.detail}."))
    if isinstance(error, GlassformerError):
        return HTTPError(501 if isinstance(error, MissingPackageError) else 422, str(error))
    return HTTPError(422, "A parameter in the URL is invalid.")


async def _error_response(request: Request, error: Exception) -> Response:
    http_error = as_http_error(error)
    headers = {} if http_error.retry_after is None else {"retry-after": str(http_error.retry_after)}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
    return JSONResponse({"error": printable(str(http_error))}, http_error.status, headers)


async def _client_disconnected(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody receives it; other servers log clients that left with this status


async def _internal_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": INTERNAL_ERROR}, 500)


HANDLERS: dict[type[Exception], Any] = {
    GlassformerError: _error_response,
    HTTPException: _error_response,
    RequestValidationError: _error_response,
    ClientDisconnectedError: _client_disconnected,
    Exception: _internal_error,
}
