"""A part of a tokenizer as its file describes it: a `type`, and options that are asked for by name and kind."""

import re
import reprlib
from collections.abc import Mapping
from typing import Any

from glassformer.data.subword_segmentation import SPACE
from glassformer.errors import DataError

SPACES = "".join(letter for letter in map(chr, range(0x3001)) if re.match(f"[{SPACE}]", letter))
DEEPEST, MOST = 5, 20
"""Sequences within sequences, and parts of one."""
EXPRESSIONS = {" {2,}": " {2,}", " +": " +", r"\n": "\n", "\n": "\n", r"\s+": f"[{SPACE}]+", r"\s": f"[{SPACE}]"}
"""Regular expressions that mean here what they mean there; another program's any others are left alone."""


class UnsupportedComponentError(DataError):
    """A part that is not known here: the file is sound, and says something that we cannot do."""


class Component:
    """One part: what it is for ("normalizer"), what it is, and its options."""

    def __init__(self, role: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise DataError(f"its {role} is {reprlib.repr(values)}, not an object.")
        self.role, self.values = role, values
        self.kind = self.text("type")

    def strange(self, what: str | None = None) -> UnsupportedComponentError:
        """What to raise."""
        return UnsupportedComponentError(
            f"its {self.role} {what or f'is a {reprlib.repr(self.kind)}, which is not known here'}."
        )

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str) or len(value) > 1000:
            raise DataError(f"its {self.role} has {name} = {reprlib.repr(value)}, which is no text.")
        return value

    def flag(self, name: str, otherwise: bool) -> bool:
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise DataError(f"its {self.role} has {name} = {reprlib.repr(value)}, neither true nor false.")
        return otherwise if value is None else value

    def number(self, name: str) -> int:
        value = self.values.get(name)
        if type(value) is not int or not 0 <= value < 2**31:
            raise DataError(f"its {self.role} has {name} = {reprlib.repr(value)}, which is no number.")
        return value

    def letter(self, name: str) -> str:
        value = self.text(name)
        if len(value) != 1:
            raise DataError(f"its {self.role} has {name} = {reprlib.repr(value)}, which is not one letter.")
        return value

    def pattern(self, name: str = "pattern") -> re.Pattern[str]:
        """{"String": ...} or {"Regex": ...}, of which some are known."""
        value = self.values.get(name)
        text = value.get("String", value.get("Regex")) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(text, str) or not text or len(text) > 1000:
            raise DataError(f"its {self.role} has {name} = {reprlib.repr(value)}, which is no pattern.")
        if "String" in value:
            return re.compile(re.escape(text))
        if text not in EXPRESSIONS:
            raise self.strange(f"has the expression {reprlib.repr(text)}, which is not known here")
        return re.compile(EXPRESSIONS[text])


def parts_of(role: str, values: Any, inner: str, deep: int = 0) -> list[Component]:
    """One after another: none for null, those of a sequence, whose list is called `inner`, or one."""
    if values is None:
        return []
    part = Component(role, values)
    if part.kind != "Sequence":
        return [part]
    several = values.get(inner)
    if not isinstance(several, list) or len(several) > MOST or deep > DEEPEST:
        raise DataError(f"its {role} is a sequence of {reprlib.repr(several)}.")
    return [one for each in several if each is not None for one in parts_of(role, each, inner, deep + 1)]


def none_of(part: Component, unset: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse options that have another value than these."""
    for name, values in unset.items():
        if not any(part.values.get(name) is value or part.values.get(name) == value for value in values):
            raise part.strange(f"has {name} = {reprlib.repr(part.values.get(name))}, which is not known here")
