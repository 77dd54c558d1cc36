"""Base class of all settings: typed, frozen, read from JSON or TOML. An unknown option is an error that names its path.

Independent of what the settings are for.
"""

import difflib
import itertools
import json
import reprlib
import tomllib
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError

from glassformer.errors import DirectoryError, SettingsError

_nested: ContextVar[bool] = ContextVar("nested", default=False)

MAX_FILE_BYTES = 1_000_000  # settings are short, and an untrusted file must not fill the memory


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
            raise SettingsError(_message(error, type(self))) from None
        finally:
            _nested.reset(token)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Settings from a .json or .toml file; every error names the file."""
        try:
            return cls(**read_table(path))
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """The description below each option; read from the source on demand, since it would slow every import."""
        import ast
        import inspect
        import textwrap

        meanings = {}
        for base in reversed([base for base in cls.__mro__ if issubclass(base, Settings)]):
            [body] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(body, ast.ClassDef)
            for option, below in itertools.pairwise(body.body):
                if isinstance(option, ast.AnnAssign) and isinstance(option.target, ast.Name):
                    text = (
                        below.value.value
                        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                        else ""
                    )
                    meanings[option.target.id] = " ".join(str(text).split())
        return {name: meaning for name, meaning in meanings.items() if meaning and name in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """pydantic's JSON schema with the descriptions added: the server's OpenAPI document shows them."""
        schema = handler(core)
        options = handler.resolve_ref_schema(schema)["properties"]
        for name, meaning in cls.meanings().items():
            options[name]["description"] = meaning
        return schema

    def as_json(self) -> str:
        """Every option, including derived ones, one per line."""
        return json.dumps(self.model_dump(mode="json"), indent=2) + "\n"

    def as_toml(self) -> str:
        """Every option that has a value, section by section; `read` restores the same settings."""
        table = self.model_dump(mode="json", exclude_none=True)
        plain = "".join(f"{_line(name, value)}\n" for name, value in table.items() if not isinstance(value, dict))
        sections = [(name, values) for name, values in table.items() if isinstance(values, dict)]
        return plain + "".join(
            f"\n[{section}]\n" + "".join(f"{_line(name, value)}\n" for name, value in values.items())
            for section, values in sections
        )


def _line(name: str, value: Any) -> str:
    # JSON and TOML have the same syntax for strings, numbers, booleans and lists of them.
    return f"{name} = {json.dumps(value, ensure_ascii=False).replace(chr(127), chr(92) + 'u007f')}"


def read_table(path: Path) -> dict[str, Any]:
    """The options in a .json or .toml file, as plain values."""
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
        raise SettingsError(f"{path} must contain one table of options; it contains a {type(table).__name__}.")
    return table


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` for json.loads, which would silently keep the last of several equal keys."""
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"{reprlib.repr(name)} is given twice")
        table[name] = value
    return table


def reject_constant(name: str) -> None:
    """A `parse_constant` for json.loads, which would accept NaN and Infinity as numbers."""
    raise ValueError(f"{name} is not valid in JSON")


def _message(error: ValidationError, settings: type[Settings]) -> str:
    return " ".join(_sentence(detail, settings) for detail in error.errors(include_url=False))


def _sentence(detail: Any, settings: type[Settings]) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        *sections, name = detail["loc"]
        closest = difflib.get_close_matches(str(name), _options(settings, sections), n=1)
        suggestion = ".".join([*map(str, sections), *closest])
        return f"There is no option {path!r}" + (f"; did you mean {suggestion!r}?" if closest else ".")
    if detail["type"] == "missing":
        return f"The option {path!r} is missing."
    if detail["type"] == "value_error":  # from a validator of ours, already a sentence
        return str(detail["ctx"]["error"])
    expected = detail["msg"].replace("Input should be", "should be")
    return f"{path} = {reprlib.repr(detail['input'])} {expected}."


def _options(settings: type[Settings], sections: Sequence[int | str]) -> list[str]:
    """The names of the options in a section; none inside a list or a union, where they are not known."""
    for section in sections:
        field = settings.model_fields.get(str(section))
        types = [] if field is None else [field.annotation, *get_args(field.annotation)]
        inner = next((one for one in types if isinstance(one, type) and issubclass(one, Settings)), None)
        if inner is None:
            return []
        settings = inner
    return list(settings.model_fields)
