"""From a request's bytes to what is asked, or to one sentence about what is wrong with it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from glassformer.errors import SettingsError
from glassformer.server.http_errors import HTTPError
from glassformer.settings import no_constant, once_each

Asked = TypeVar("Asked", bound=BaseModel)
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
FIELDS = 100
"""Of a form; ours have a handful."""
LARGE = 16 * 1024
"""Bytes of a body that is read in a thread: whoever sends half a megabyte of brackets holds up nobody else."""


async def asked(request: Request, kind: type[Asked]) -> Asked:
    """What a JSON body asks; an unknown option is an error that names its place."""
    return await _read(_strictly, await request.body(), _content_type(request), kind)


async def asked_loosely(request: Request, kind: type[Asked]) -> Asked:
    """What a JSON body or a form asks, as other servers read it: numbers may be text, strangers are passed over."""
    return await _read(_loosely, await request.body(), _content_type(request), kind)


async def _read(parse: Callable[[bytes, str, type[Asked]], Asked], body: bytes, content_type: str, kind: Any) -> Asked:
    if len(body) <= LARGE:
        return parse(body, content_type, kind)
    return await asyncio.to_thread(parse, body, content_type, kind)


def _strictly(body: bytes, content_type: str, kind: type[Asked]) -> Asked:
    table = from_json(body, content_type)
    try:
        return kind(**table)
    except SettingsError as error:
        raise HTTPError(422, str(error)) from None
    except ValidationError as error:
        raise HTTPError(422, _sentence(error)) from None
    except TypeError:
        raise HTTPError(422, "There is a name among the options that none of them has.") from None


def _loosely(body: bytes, content_type: str, kind: type[Asked]) -> Asked:
    table = from_form(body) if content_type == FORM else from_json(body, content_type)
    if kind.model_fields.keys() & {"q"} and not table.get("q"):
        raise HTTPError(400, "Invalid request: missing q parameter: the text to translate.")
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise HTTPError(400, f"Invalid request: {_sentence(error)}") from None


def from_json(body: bytes, content_type: str) -> dict[str, Any]:
    if content_type != JSON:
        raise HTTPError(415, f"The body is {content_type or 'of no kind'!r}; say Content-Type: {JSON}, and send that.")
    try:
        table = json.loads(body.decode(), object_pairs_hook=once_each, parse_constant=no_constant)
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"The body is not UTF-8: byte {error.start} cannot be read.") from None
    except RecursionError:
        raise HTTPError(400, "The body is nested too deeply.") from None
    except ValueError as error:
        raise HTTPError(400, f"The body is not readable as JSON: {error}.") from None
    if not isinstance(table, dict):
        raise HTTPError(422, f"The body must hold one table of options; it holds a {type(table).__name__}.")
    return table


def from_form(body: bytes) -> dict[str, Any]:
    """A field that comes several times is a list."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=FIELDS)
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"The body is not UTF-8: byte {error.start} cannot be read.") from None
    except ValueError:
        raise HTTPError(400, f"A form of more than {FIELDS} fields is none of ours.") from None
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            several = table[name]
            table[name] = [*several, value] if isinstance(several, list) else [several, value]
        else:
            table[name] = value
    return table


def _sentence(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg'].removesuffix('.')}."


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
