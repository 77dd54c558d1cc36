"""Another program's settings, asked one by one; what is missing or cannot be had is said by name."""

import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from glassformer.errors import DirectoryError, InputError
from glassformer.model import ModelConfig

T = TypeVar("T")
LARGEST = 2**31
"""What no number of a model's settings reaches."""


class ForeignOptions:
    """Names and values, and where they stand."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = dict(values)
        self.where = where

    def __getitem__(self, name: str) -> Any:
        """What must be there."""
        value = self.get(name)
        if value is None:
            raise DirectoryError(f"{self.where} does not say {name}.")
        return value

    def get(self, name: str, otherwise: Any = None) -> Any:
        """What may be missing."""
        value = self.values.get(name)
        if not _sane(value):
            raise DirectoryError(f"{self.where} has {name} = {reprlib.repr(value)}, which no model has.")
        return otherwise if value is None else value

    def whole(self, *names: str, several: bool = False) -> None:
        """Refuse what is there and not a whole number; there may be `several`, of which the first counts."""
        for name in names:
            value = self.get(name)
            first = value[0] if several and isinstance(value, list) and value else value
            if value is not None and type(first) is not int:
                raise DirectoryError(f"{self.where} has {name} = {reprlib.repr(value)}, which is not a whole number.")

    def same(self, *names: str) -> Any:
        """What their program tells apart, and we do not: the one value of all."""
        values = [self[name] for name in names]
        if any(value != values[0] for value in values):
            both = ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))
            raise InputError(f"{self.where} has {both}: encoder and decoder have one number in common here.")
        return values[0]

    def choice(self, name: str, choices: Mapping[str, T], otherwise: str | None = None) -> T:
        """Our word for theirs."""
        value = self[name] if otherwise is None else self.get(name, otherwise)
        if not isinstance(value, str) or value not in choices:
            raise InputError(f"{self.where} has {name} = {value!r}: only {', '.join(choices)} can be opened.")
        return choices[value]

    def only(self, **wanted: Any) -> None:
        """Refuse every option that is there with another value; all that are, together."""
        wrong = {name: self.values[name] for name, value in wanted.items() if self.get(name, value) != value}
        if wrong:
            said = ", ".join(f"{name} = {value!r}" for name, value in wrong.items())
            raise InputError(f"{self.where} has {said}: such a model cannot be opened.")

    def token(self, name: str, otherwise: int | None = None) -> Any:
        """The number of a token; of several, the first."""
        value = self[name] if otherwise is None else self.get(name, otherwise)
        return value[0] if isinstance(value, list) and value else value


def refusals(config: ModelConfig, wrong: Mapping[str, bool]) -> list[str]:
    """The options of one of our models that another program cannot have, each as `name = value`."""
    return [f"{name} = {getattr(config, name)}" for name, is_wrong in wrong.items() if is_wrong]


def _sane(value: Any) -> bool:
    """Whether it can be calculated with, and told in a sentence."""
    if isinstance(value, list):
        return len(value) <= 100 and all(map(_sane, value))
    if isinstance(value, int | float):
        return abs(value) < LARGEST  # which NaN is not, either
    return not isinstance(value, str | dict | tuple) or len(value) <= 100
