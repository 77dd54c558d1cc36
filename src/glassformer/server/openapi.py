"""The API's description for programs (OpenAPI): what the routes say of themselves, with what holds for all of them.

The door's refusals, when to come back, this server's limits, its keys, and where a trace's id leads.
"""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from glassformer.server.limits import Limits
from glassformer.server.middleware import KEY_IN_BODY, OPEN
from glassformer.server.schemas import AskDetect, AskLibre, AskTrace, AskTranslation, AskWhatIf, AskWho

ASKED = (AskTranslation, AskTrace, AskWhatIf, AskWho, AskLibre, AskDetect)
SCHEMAS = "#/components/schemas/"
DOOR = (400, 401, 403, 413, 421, 431, 503)
"""What any request may be answered before its route hears of it."""
READING = (408, 415, 422)
"""What a request with a body may be answered besides."""
TRACE = "/api/explore/{id}"


def describe(app: FastAPI, limits: Limits, asks_for_keys: bool) -> dict[str, Any]:
    """OpenAPI, with what the routes read from their bodies by themselves."""
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    _, asked = models_json_schema([(kind, "validation") for kind in ASKED], ref_template=SCHEMAS + "{model}")
    schemas = found["components"]["schemas"]
    schemas |= asked["$defs"]
    _bound(schemas, limits)
    for path, methods in found["paths"].items():
        for operation in methods.values():
            _refusals(operation)
            _no_null_in_addresses(operation)
            if asks_for_keys and path not in OPEN:
                operation["security"] = [{"bearer": []}, {"header": []}, *([{}] if path in KEY_IN_BODY else [])]
    _links(found["paths"])
    if asks_for_keys:
        found["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
    return found


def _refusals(operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    wrong = {"application/json": {"schema": {"$ref": f"{SCHEMAS}Wrong"}}}
    for status in (*DOOR, *(READING if "requestBody" in operation else ())):
        answers.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": wrong})
    answers["503"]["headers"] = {
        "Retry-After": {
            "description": "Seconds after which it may go better.",
            "required": True,
            "schema": {"type": "integer", "minimum": 1},
        }
    }
    operation["responses"] = dict(sorted(answers.items()))


def _no_null_in_addresses(operation: dict[str, Any]) -> None:
    """A query can leave a value out; it cannot say null."""
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del schema["anyOf"]
            schema |= kinds[0]


def _bound(schemas: dict[str, Any], limits: Limits) -> None:
    """This server's own bounds, so that a program need not find them out by being refused."""
    text = {"maxLength": limits.characters}
    some = text | {"minLength": 1}
    _narrow(schemas["AskTranslation"], text={**text, "maxItems": limits.texts})
    _narrow(schemas["AskTranslation"], beam={"maximum": limits.beam}, n_best={"maximum": limits.n_best})
    _narrow(schemas["AskTrace"], text=some, beam={"maximum": limits.trace_beam})
    _narrow(schemas["AskWhatIf"], changes={"maxItems": limits.changes}, replace={"maxItems": limits.changes})
    _narrow(schemas["AskLibre"], alternatives={"maximum": limits.n_best - 1})
    for libre in ("AskLibre", "AskDetect"):
        _narrow(schemas[libre], q={**some, "minItems": 1, "maxItems": limits.texts})


def _narrow(schema: dict[str, Any], **bounds: dict[str, int]) -> None:
    """JSON Schema's bounds speak of one type each and let others pass, so they may stand beside a choice of types."""
    for name, own in bounds.items():
        option = schema["properties"][name]
        kinds = [option, *option.pop("anyOf", ())]
        for kind in kinds:
            for word in own.keys() & kind.keys():
                del kind[word]  # a wider one
        if len(kinds) > 1:
            option["anyOf"] = kinds[1:]
        option |= own


def _links(paths: dict[str, Any]) -> None:
    """Where the id of a new trace leads."""
    leads = {
        operation["operationId"]: {"operationId": operation["operationId"], "parameters": {"id": "$response.body#/id"}}
        for path, methods in paths.items()
        if path.startswith(TRACE)
        for operation in methods.values()
    }
    for path in ("/api/explore", f"{TRACE}/what-if"):
        paths[path]["post"]["responses"]["200"]["links"] = leads
