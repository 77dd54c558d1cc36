"""Request bodies and boolean query parameters, parsed; what is wrong with one is reported in one sentence."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from glassformer.errors import SettingsError
from glassformer.server.http_errors import HTTPError
from glassformer.settings import reject_constant, reject_duplicate_keys, validation_message

Body = TypeVar("Body", bound=BaseModel)
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
FLAG = {"enum": ["0", "1", "false", "true", ""]}
"""OpenAPI schema of a boolean query parameter: the values that `flag` accepts."""
MAX_FORM_FIELDS = 100
"""Maximum number of fields in a form; the forms of this API have a handful."""
MAX_DIGITS = 100
"""Maximum number of digits of a whole number in a body."""
MAX_INLINE_BYTES = 16 * 1024
"""Maximum size of a body parsed in the event loop; larger ones are parsed in a thread, so as not to block it."""


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Parse the JSON body of a request as `kind`; an unknown option is an error that names it."""
    return await _parse(_parse_strictly, await request.body(), _content_type(request), kind)


async def read_body_leniently(request: Request, kind: type[Body]) -> Body:
    """Parse a JSON body or form as other servers do: numbers may be strings, and unknown fields are ignored."""
    return await _parse(_parse_leniently, await request.body(), _content_type(request), kind)


async def _parse(parse: Callable[[bytes, str, type[Body]], Body], body: bytes, content_type: str, kind: Any) -> Body:
    if len(body) <= MAX_INLINE_BYTES:
        return parse(body, content_type, kind)
    return await asyncio.to_thread(parse, body, content_type, kind)


def _parse_strictly(body: bytes, content_type: str, kind: type[Body]) -> Body:
    table = from_json(body, content_type)
    try:
        return kind(**table)
    except SettingsError as error:
        raise HTTPError(422, str(error)) from None
    except ValidationError as error:
        raise HTTPError(422, validation_message(error, kind)) from None
    except TypeError:
        raise HTTPError(422, "The body has an option with an invalid name.") from None


def _parse_leniently(body: bytes, content_type: str, kind: type[Body]) -> Body:
    table = from_form(body) if content_type == FORM else from_json(body, content_type)
    if kind.model_fields.keys() & {"q"} and not table.get("q"):
        raise HTTPError(400, "Invalid request: missing q parameter (the text to translate).")
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise HTTPError(400, f"Invalid request: {validation_message(error, kind)}") from None


def from_json(body: bytes, content_type: str) -> dict[str, Any]:
    if content_type != JSON:
        raise HTTPError(415, f"Content-Type {content_type!r} is not supported. Send {JSON}.")
    try:
        table = json.loads(
            body.decode(),
            object_pairs_hook=reject_duplicate_keys,
            parse_constant=reject_constant,
            parse_int=_parse_int,
        )
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"The body is not UTF-8: byte {error.start} cannot be decoded.") from None
    except RecursionError:
        raise HTTPError(400, "The body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise HTTPError(400, f"The body is not valid JSON: it cannot be read from {place} on.") from None
    except ValueError as error:  # from one of the hooks
        raise HTTPError(400, f"The body is not valid JSON: {error}.") from None
    if not isinstance(table, dict):
        raise HTTPError(422, "The body must be a JSON object with named options.")
    return table


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits, more than {MAX_DIGITS}")
    return int(digits)


def from_form(body: bytes) -> dict[str, Any]:
    """Parse a form; a field that occurs several times becomes a list."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=MAX_FORM_FIELDS)
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"The body is not UTF-8: byte {error.start} cannot be decoded.") from None
    except ValueError:
        raise HTTPError(400, f"The form has more than {MAX_FORM_FIELDS} fields.") from None
    table: dict[str, list[str]] = {}
    for name, value in pairs:
        table.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in table.items()}


def flag(name: str, text: str | None) -> bool:
    """Parse a boolean query parameter: 1 or true, 0 or false."""
    if text in (None, "", "0", "false"):
        return False
    if text in ("1", "true"):
        return True
    raise HTTPError(422, f"{name} = {text!r} should be 1 or 0.")


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
