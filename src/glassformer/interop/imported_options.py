"""Checked access to another program's settings: errors name the setting that is missing or unsupported."""

import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from glassformer.errors import DirectoryError, InputError

T = TypeVar("T")
MAX_VALUE = 2**31
"""Maximum value of a number in another program's settings; those of real models are below it."""


class ImportedOptions:
    """Another program's settings by name, and the file they come from (for errors)."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = dict(values)
        self.where = where

    def __getitem__(self, name: str) -> Any:
        """The value of a required setting."""
        value = self.get(name)
        if value is None:
            raise DirectoryError(f"{self.where} lacks the setting {name}.")
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an optional setting."""
        value = self.values.get(name)
        if not _is_plausible(value):
            raise DirectoryError(f"{self.where} has {name} = {reprlib.repr(value)}, which is not a plausible value.")
        return default if value is None else value

    def require_integers(self, *names: str, several: bool = False) -> None:
        """Reject settings that are present but not integers; with `several`, a list must begin with an integer."""
        for name in names:
            value = self.get(name)
            first = value[0] if several and isinstance(value, list) and value else value
            if value is not None and type(first) is not int:
                raise DirectoryError(f"{self.where} has {name} = {reprlib.repr(value)}, which is not an integer.")

    def same(self, *names: str) -> Any:
        """The common value of settings that the other program has twice (encoder, decoder) and our config once."""
        values = [self[name] for name in names]
        if any(value != values[0] for value in values):
            settings = ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))
            raise InputError(
                f"{self.where} has {settings}: only models with the same value for encoder and decoder are supported."
            )
        return values[0]

    def choice(self, name: str, choices: Mapping[str, T], default: str | None = None) -> T:
        """Our value for a setting of the other program, from a table of the supported values."""
        value = self[name] if default is None else self.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise InputError(f"{self.where} has {name} = {value!r}: only {', '.join(choices)} are supported.")
        return choices[value]

    def require(self, **expected: Any) -> None:
        """Reject settings that are present with another value than expected, all in one error."""
        wrong = {name: self.values[name] for name, value in expected.items() if self.get(name, value) != value}
        if wrong:
            settings = ", ".join(f"{name} = {value!r}" for name, value in wrong.items())
            raise InputError(f"{self.where} has {settings}, which is not supported.")

    def token(self, name: str, default: int | None = None) -> Any:
        """The value of a setting that is a token id; of a list of ids, the first."""
        value = self[name] if default is None else self.get(name, default)
        return value[0] if isinstance(value, list) and value else value


def _is_plausible(value: Any) -> bool:
    """Whether a value is small enough to compute with and to show in a message."""
    if isinstance(value, list):
        return len(value) <= 100 and all(map(_is_plausible, value))
    if isinstance(value, int | float):
        return abs(value) < MAX_VALUE  # False for NaN, too
    return not isinstance(value, str | dict | tuple) or len(value) <= 100
