"""OpenAPI description of the server: helpers for what routes declare, completed with what applies to all of them.

Adds the middleware's error responses, Retry-After, this server's limits, its API keys, and links from a trace's id.
"""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from glassformer.server import schemas as bodies
from glassformer.server.limits import Limits
from glassformer.server.middleware import KEY_IN_BODY_PATHS, PUBLIC_PATHS

SCHEMAS = "#/components/schemas/"
MIDDLEWARE_STATUSES = (400, 401, 403, 413, 421, 431, 503)
"""Error statuses that any request may get before it reaches its route."""
BODY_STATUSES = (408, 415, 422)
"""Further error statuses of requests with a body."""
TRACE_PATH = "/api/explore/{id}"


def request_body(kind: type[BaseModel], content_types: tuple[str, ...] = ("application/json",)) -> dict[str, Any]:
    """OpenAPI's description of the body that a route parses itself."""
    schema = {"$ref": f"{SCHEMAS}{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {name: {"schema": schema} for name in content_types}}}


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's description of the error responses with these statuses."""
    return {status: {"model": bodies.ErrorResponse} for status in statuses}


TRACE_ERRORS = responses(401, 404, 413, 422, 503)
"""Error responses of the routes that make or read traces."""


def describe(app: FastAPI, limits: Limits, requires_key: bool, root_path: str = "") -> dict[str, Any]:
    """Make the OpenAPI document, including the bodies that routes parse themselves."""
    servers: list[dict[str, Any]] | None = [{"url": root_path}] if root_path else None
    document = get_openapi(title=app.title, version=app.version, routes=app.routes, servers=servers)
    _, own = models_json_schema(
        [(kind, "validation") for kind in _request_bodies(document)], ref_template=SCHEMAS + "{model}"
    )
    schemas = document["components"]["schemas"]
    schemas |= own["$defs"]
    _add_limits(schemas, limits)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            _add_error_responses(operation, requires_key)
            _remove_null_from_parameters(operation)
            if requires_key and path not in PUBLIC_PATHS:
                operation["security"] = [{"bearer": []}, {"header": []}, *([{}] if path in KEY_IN_BODY_PATHS else [])]
    _add_links(document["paths"])
    if requires_key:
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
    return document


def _request_bodies(document: dict[str, Any]) -> list[type[BaseModel]]:
    """The bodies that routes parse themselves, as declared by `request_body`."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    contents = [operation["requestBody"]["content"] for operation in operations if "requestBody" in operation]
    names = {kind["schema"]["$ref"].removeprefix(SCHEMAS) for content in contents for kind in content.values()}
    from glassformer.server import what_if_schemas  # imports PyTorch

    return [getattr(bodies, name, None) or getattr(what_if_schemas, name) for name in sorted(names)]


def _add_error_responses(operation: dict[str, Any], requires_key: bool) -> None:
    responses = operation["responses"]
    content = {"application/json": {"schema": {"$ref": f"{SCHEMAS}ErrorResponse"}}}
    later = ("429", "503") if requires_key else ("503",)  # keys may have rates
    statuses = (*MIDDLEWARE_STATUSES, *(BODY_STATUSES if "requestBody" in operation else ()), *map(int, later))
    for status in statuses:
        responses.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": content})
    for status in later:
        responses[status]["headers"] = {
            "Retry-After": {
                "description": "Seconds to wait before retrying.",
                "required": True,
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    operation["responses"] = dict(sorted(responses.items()))


def _remove_null_from_parameters(operation: dict[str, Any]) -> None:
    """Remove null from the types of query parameters: these can be omitted, but they cannot be null."""
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del schema["anyOf"]
            schema |= kinds[0]


def _add_limits(schemas: dict[str, Any], limits: Limits) -> None:
    """Add this server's limits to the schemas, so that a client need not discover them through refusals."""
    text = {"maxLength": limits.characters}
    nonempty = text | {"minLength": 1}
    _narrow(schemas["TranslateRequest"], text={**text, "maxItems": limits.texts})
    _narrow(schemas["TranslateRequest"], beam={"maximum": limits.beam}, n_best={"maximum": limits.n_best})
    _narrow(schemas["TraceRequest"], text=nonempty, beam={"maximum": limits.trace_beam})
    _narrow(schemas["WhatIfRequest"], changes={"maxItems": limits.changes}, replace={"maxItems": limits.changes})
    _narrow(schemas["LibreTranslateRequest"], alternatives={"maximum": limits.n_best - 1})
    for name in ("LibreTranslateRequest", "DetectRequest"):
        _narrow(schemas[name], q={**nonempty, "minItems": 1, "maxItems": limits.texts})


def _narrow(schema: dict[str, Any], **bounds: dict[str, int]) -> None:
    """Add bounds to a schema's properties; each applies to one JSON type, so it may stand beside `anyOf`."""
    for name, narrower in bounds.items():
        option = schema["properties"][name]
        kinds = [option, *option.pop("anyOf", ())]
        for kind in kinds:
            for keyword in narrower.keys() & kind.keys():
                del kind[keyword]  # the wider bound
        if len(kinds) > 1:
            option["anyOf"] = kinds[1:]
        option |= narrower


def _add_links(paths: dict[str, Any]) -> None:
    """Add OpenAPI links from the id of a new trace to the routes that take it."""
    links = {
        operation["operationId"]: {"operationId": operation["operationId"], "parameters": {"id": "$response.body#/id"}}
        for path, methods in paths.items()
        if path.startswith(TRACE_PATH)
        for operation in methods.values()
    }
    for path in ("/api/explore", f"{TRACE_PATH}/what-if"):
        paths[path]["post"]["responses"]["200"]["links"] = links
