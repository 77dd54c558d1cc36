"""Base class of all settings: typed, frozen, read from JSON or TOML. An unknown option is an error that names its path.

Independent of what the settings are for.
"""

import json
import re
import reprlib
import tomllib
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from glassformer.errors import DirectoryError, SettingsError
from glassformer.synonyms import closest

_nested: ContextVar[bool] = ContextVar("nested", default=False)

MAX_FILE_BYTES = 1_000_000  # settings are short, and an untrusted file must not fill the memory
MAX_SENTENCES, MAX_NAME = 20, 100
"""Limits of an error message: its sentences, and the characters of an unknown option's name."""
UNION_MEMBER = re.compile(r"str|int|float|bool|.*\[.*\]")
"""pydantic's labels for the members of a union in the location of an error, such as `list[str]`."""

EXPECTED_VALUES = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "greater_than_equal": "at least {ge}",
    "greater_than": "greater than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
}
"""What an option should be, by the type of pydantic's error and with its details."""


class Settings(BaseModel):
    """Base class of all settings: an option is a field, and the string below it is its description."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        protected_namespaces=(),
        defer_build=True,  # validators are built at first use, not at import
    )

    def __init__(self, **options: Any) -> None:
        token = _nested.set(True)  # sections are constructed inside the constructor of the outer settings
        try:
            super().__init__(**options)
        except ValidationError as error:
            if token.old_value is True:
                raise  # the outer settings know the section's name and the other errors
            raise SettingsError(validation_message(error, type(self))) from None
        finally:
            _nested.reset(token)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read settings from a .json or .toml file; every error names the file."""
        table = read_table(path)
        try:
            return cls(**table)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Descriptions of the options, from the strings below them."""
        bases = [base for base in reversed(cls.__mro__) if issubclass(base, Settings)]
        strings = {name: string for base in bases for name, string in _strings_below_fields(base).items()}
        return {name: strings[name] for name in cls.model_fields if name in strings}

    def as_json(self) -> str:
        """The settings as JSON: every option, including derived ones, one per line."""
        return json.dumps(self.model_dump(mode="json"), indent=2) + "\n"

    def as_toml(self) -> str:
        """The settings as TOML: every option that has a value, by section; `read` restores the same settings."""
        table = self.model_dump(mode="json", exclude_none=True)
        plain = "".join(f"{_line(name, value)}\n" for name, value in table.items() if not isinstance(value, dict))
        sections = [(name, values) for name, values in table.items() if isinstance(values, dict)]
        return plain + "".join(
            f"\n[{section}]\n" + "".join(f"{_line(name, value)}\n" for name, value in values.items())
            for section, values in sections
        )


def _strings_below_fields(settings: type[Settings]) -> dict[str, str]:
    """The string below each field of a class; read from its source, which takes too long to do it at every start."""
    import ast
    import inspect

    [definition] = ast.parse(inspect.getsource(settings)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _line(name: str, value: Any) -> str:
    # JSON and TOML have the same syntax for strings, numbers, booleans and lists of them.
    return f"{name} = {json.dumps(value, ensure_ascii=False).replace(chr(127), chr(92) + 'u007f')}"


def read_table(path: Path) -> dict[str, Any]:
    """Read the options in a .json or .toml file, as plain values."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise SettingsError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes, the limit for a settings file.")
    try:
        text = raw.decode("utf-8")
        table = (
            tomllib.loads(text)
            if path.suffix == ".toml"
            else json.loads(text, object_pairs_hook=reject_duplicate_keys, parse_constant=reject_constant)
        )
    except (ValueError, RecursionError) as error:  # the errors of both parsers are ValueErrors
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise SettingsError(f"{path} is not readable as {path.suffix[1:].upper()}: {reason}.") from None
    if not isinstance(table, dict):
        raise SettingsError(f"{path} is JSON, but not an object with named options.")
    return table


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` for json.loads that rejects duplicate keys, of which it would silently keep the last."""
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"{reprlib.repr(name)} is given twice")
        table[name] = value
    return table


def reject_constant(name: str) -> None:
    """A `parse_constant` for json.loads that rejects NaN and Infinity, which it would accept as numbers."""
    raise ValueError(f"{name} is not valid in JSON")


def validation_message(error: ValidationError, settings: type[BaseModel]) -> str:
    """pydantic's errors as sentences, one per option."""
    details: dict[tuple[int | str, ...], list[Any]] = {}
    for detail in error.errors(include_url=False):
        location = _location(detail["loc"], names_input=detail["type"] == "extra_forbidden")
        details.setdefault(location, []).append(detail)
    for location in [location for location in details if location]:
        # Of a union's members, the one that fits best: an error inside it says more than that the others do not fit.
        if any(other[: len(location)] == location != other for other in details):
            del details[location]
    sentences = list(dict.fromkeys(_sentence(location, several, settings) for location, several in details.items()))
    more = len(sentences) - MAX_SENTENCES
    return " ".join(sentences[:MAX_SENTENCES]) + (f" There are {more:,} more errors." if more > 0 else "")


def _location(parts: tuple[int | str, ...], names_input: bool) -> tuple[int | str, ...]:
    """The path of an option, without pydantic's labels: the members of a union, and their tags, such as remove-head.

    `names_input`: the last part is a name from the input, which may look like a label.
    """
    untagged = [
        part
        for i, part in enumerate(parts)
        if isinstance(part, int)
        or not (0 < i < len(parts) - 1 and isinstance(parts[i - 1], int) and not part.isidentifier())
    ]
    last = len(untagged) - 1
    return tuple(
        part
        for i, part in enumerate(untagged)
        if isinstance(part, int) or (names_input and i == last) or not UNION_MEMBER.fullmatch(part)
    )


def _sentence(location: Sequence[int | str], details: list[Any], settings: type[BaseModel]) -> str:
    path = ".".join(str(part) if len(str(part)) <= MAX_NAME else f"{str(part)[:MAX_NAME]}..." for part in location)
    by_type = {detail["type"]: detail for detail in details}
    if "extra_forbidden" in by_type:
        *sections, name = location
        return no_such_option(path, str(name), _options(settings, sections), sections)
    if "missing" in by_type:
        return f"The option {path!r} is missing."
    if "value_error" in by_type:  # from a validator of ours, already a sentence
        return str(by_type["value_error"]["ctx"]["error"])
    expected = " or ".join(dict.fromkeys(map(_expectation, details))).replace(" or should be ", " or ")
    return f"{path} = {reprlib.repr(details[0]['input'])} {expected}."


def no_such_option(path: str, name: str, known: Iterable[str], sections: Sequence[int | str] = ()) -> str:
    """The sentence about an unknown option, and which of the known ones in its section was meant."""
    meant = closest(name, known)
    suggestion = ".".join([*map(str, sections), meant or ""])
    return f"There is no option {path!r}" + (f"; did you mean {suggestion!r}?" if meant else ".")


def _expectation(detail: Any) -> str:
    """pydantic's message as the end of a sentence about an option, without the names of classes."""
    if detail["type"] in EXPECTED_VALUES:
        bounds = {name: _plain(value) for name, value in detail.get("ctx", {}).items()}
        return f"should be {EXPECTED_VALUES[detail['type']].format(**bounds)}"
    if detail["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "should contain named options"
    if detail["type"] == "union_tag_invalid":
        return f"has an unknown {detail['ctx']['discriminator']}; expected one of {detail['ctx']['expected_tags']}"
    if detail["type"] == "union_tag_not_found":
        return f"has no {detail['ctx']['discriminator']}"
    return re.sub(r"^\w+ should", "should", detail["msg"]).replace(" after validation", "")


def _plain(bound: Any) -> Any:
    """A bound as one writes it: 10 rather than 10.0."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _options(settings: type[BaseModel], sections: Sequence[int | str]) -> list[str]:
    """The names of the options in a section; empty inside a list or a union, where they are not known."""
    for section in sections:
        field = settings.model_fields.get(str(section))
        types = [] if field is None else [field.annotation, *get_args(field.annotation)]
        inner = next((one for one in types if isinstance(one, type) and issubclass(one, Settings)), None)
        if inner is None:
            return []
        settings = inner
    return list(settings.model_fields)
