"""Settings: typed, frozen, read from JSON or TOML. An unknown option is an error that names its place.

Knows nothing of what the settings are for.
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

_inside: ContextVar[bool] = ContextVar("inside", default=False)

LARGEST_FILE = 1_000_000  # bytes; settings are short, and a stranger's file must not fill the memory


class Settings(BaseModel):
    """The base of everything that is configured: an option is a field with its meaning written under it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        protected_namespaces=(),
        defer_build=True,  # validators are made when first used, not at import
    )

    def __init__(self, **options: Any) -> None:
        inside = _inside.set(True)  # sections are made within the making of the whole
        try:
            super().__init__(**options)
        except ValidationError as error:
            if inside.old_value is True:
                raise  # the whole knows the section's name, and what else is wrong
            raise SettingsError(_in_words(error, type(self))) from None
        finally:
            _inside.reset(inside)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Settings from a .json or .toml file; every complaint names the file."""
        try:
            return cls(**read_table(path))
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What is written under each option; read from the source when asked for, which would slow every import."""
        import ast
        import inspect
        import textwrap

        found = {}
        for kind in reversed([kind for kind in cls.__mro__ if issubclass(kind, Settings)]):
            [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            assert isinstance(body, ast.ClassDef)
            for option, under in itertools.pairwise(body.body):
                if isinstance(option, ast.AnnAssign) and isinstance(option.target, ast.Name):
                    text = (
                        under.value.value
                        if isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant)
                        else ""
                    )
                    found[option.target.id] = " ".join(str(text).split())
        return {name: meaning for name, meaning in found.items() if meaning and name in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """As pydantic describes a class, with the meanings: a server's description of itself shows them."""
        schema = handler(core)
        options = handler.resolve_ref_schema(schema)["properties"]
        for name, meaning in cls.meanings().items():
            options[name]["description"] = meaning
        return schema

    def as_json(self) -> str:
        """Every option, the derived ones too, one a line."""
        return json.dumps(self.model_dump(mode="json"), indent=2) + "\n"

    def as_toml(self) -> str:
        """Every option that has a value, section by section; `read` gives the same settings back."""
        table = self.model_dump(mode="json", exclude_none=True)
        plain = "".join(f"{_line(name, value)}\n" for name, value in table.items() if not isinstance(value, dict))
        sections = [(name, values) for name, values in table.items() if isinstance(values, dict)]
        return plain + "".join(
            f"\n[{section}]\n" + "".join(f"{_line(name, value)}\n" for name, value in values.items())
            for section, values in sections
        )


def _line(name: str, value: Any) -> str:
    # What JSON and TOML write alike: texts, numbers, true and false, and lists of them.
    return f"{name} = {json.dumps(value, ensure_ascii=False).replace(chr(127), chr(92) + 'u007f')}"


def read_table(path: Path) -> dict[str, Any]:
    """The options in a .json or .toml file, as plain values."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None
    if len(raw) > LARGEST_FILE:
        raise SettingsError(f"{path} is larger than {LARGEST_FILE:,} bytes, which no settings file is.")
    try:
        text = raw.decode("utf-8")
        table = (
            tomllib.loads(text)
            if path.suffix == ".toml"
            else json.loads(text, object_pairs_hook=once_each, parse_constant=no_constant)
        )
    except (ValueError, RecursionError) as error:  # both decoders' errors are ValueErrors
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise SettingsError(f"{path} is not readable as {path.suffix[1:].upper()}: {reason}.") from None
    if not isinstance(table, dict):
        raise SettingsError(f"{path} must hold one table of options; it holds a {type(table).__name__}.")
    return table


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json.loads, which would silently keep the last."""
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"{reprlib.repr(name)} is given twice")
        table[name] = value
    return table


def no_constant(name: str) -> None:
    """For json.loads, which would take NaN and Infinity for numbers."""
    raise ValueError(f"{name} is not a number that JSON knows")


def _in_words(error: ValidationError, settings: type[Settings]) -> str:
    return " ".join(_sentence(found, settings) for found in error.errors(include_url=False))


def _sentence(found: Any, settings: type[Settings]) -> str:
    place = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        *sections, name = found["loc"]
        near = difflib.get_close_matches(str(name), _options(settings, sections), n=1)
        meant = ".".join([*map(str, sections), *near])
        return f"There is no option {place!r}" + (f"; did you mean {meant!r}?" if near else ".")
    if found["type"] == "missing":
        return f"The option {place!r} is missing."
    if found["type"] == "value_error":  # our own checks, already a sentence
        return str(found["ctx"]["error"])
    wanted = found["msg"].replace("Input should be", "should be")
    return f"{place} = {reprlib.repr(found['input'])} {wanted}."


def _options(settings: type[Settings], sections: Sequence[int | str]) -> list[str]:
    """The options that a section of the settings has; none that we know of inside a list or a choice of several."""
    for section in sections:
        field = settings.model_fields.get(str(section))
        kinds = [] if field is None else [field.annotation, *get_args(field.annotation)]
        found = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)
        if found is None:
            return []
        settings = found
    return list(settings.model_fields)
