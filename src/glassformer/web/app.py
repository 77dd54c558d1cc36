"""The app: routes put together, every error one sentence, the whole behind the guard."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from glassformer import __version__
from glassformer.errors import GlassformerError
from glassformer.web import explore, static, translating, who
from glassformer.web.guard import Door, Guard, responses
from glassformer.web.house import House
from glassformer.web.languages import AUTO
from glassformer.web.manifest import parameters
from glassformer.web.refusal import ClientLeftError, RefusedError, printable
from glassformer.web.schemas import AskLibre, AskTrace, AskTranslation, AskWhatIf, AskWho, Health

ASKED = (AskTranslation, AskTrace, AskWhatIf, AskWho, AskLibre)
SILENT: Any = {"auto_configure": False, "tracing": False, "metrics": False, "logs": False}
"""FastAPI's own telemetry: nothing leaves this server but answers."""


def make_app(house: House, hosts: Sequence[str] = ()) -> Guard:
    """An ASGI app. `hosts`: names that it is known by, beside localhost and addresses in digits."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        house.close()

    app = FastAPI(
        title="glassformer",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # they load from elsewhere; ours is /docs in static.py
        redoc_url=None,
        redirect_slashes=False,
        telemetry=SILENT,
    )
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    _say_how_it_goes(app, house)
    app.include_router(translating.routes(house))
    app.include_router(explore.routes(house))
    app.include_router(who.routes(house))
    served = house.service.served
    app.include_router(static.routes(static.page_files(), served.name, __version__, lambda: app.openapi()))
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    return Guard(app, Door(house.limits, house.metrics, house.keys, tuple(host.lower() for host in hosts)))


def _say_how_it_goes(app: FastAPI, house: House) -> None:
    served = house.service.served

    @app.get("/health", response_model=Health, summary="Whether the server lives and takes requests.")
    async def health() -> Response:
        found = Health(status="stopping" if house.stopping else "ok", model=served.name, version=__version__)
        return JSONResponse(found.model_dump(), status_code=503 if house.stopping else 200)

    @app.get("/metrics", response_class=PlainTextResponse, summary="Numbers, as Prometheus reads them.")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(house.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/api/model", responses=responses(401), summary="The model: its shape, its weights by name, its limits.")
    async def model() -> dict[str, Any]:
        return {
            "name": served.name,
            "version": __version__,
            "config": served.translator.model.config.model_dump(mode="json"),
            "parameters": [one.model_dump(exclude_none=True) for one in parameters(served.translator.model)],
            "languages": [AUTO, *(language["code"] for language in house.service.languages.listed())],
            "limits": house.limits.model_dump(mode="json"),
        }


def _description(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with what the routes read from their bodies by themselves."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _, asked = models_json_schema(
            [(kind, "validation") for kind in ASKED], ref_template="#/components/schemas/{model}"
        )
        found["components"]["schemas"] |= asked["$defs"]
        app.openapi_schema = found
    return app.openapi_schema


def as_refusal(error: Exception) -> RefusedError:
    """What a client is told of an error."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, HTTPException):
        return RefusedError(error.status_code, f"{error.detail}.")
    if isinstance(error, GlassformerError):
        return RefusedError(422, str(error))
    return RefusedError(422, "The address asks for something that is not understood.")


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
    ClientLeftError: _gone,
    Exception: _broken,
}
