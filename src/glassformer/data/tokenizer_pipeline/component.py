"""A component of a `tokenizer.json`: its `type`, and its options with their types checked."""

import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from glassformer.data.subword_segmentation import WHITESPACE
from glassformer.errors import DataError

WHITESPACE_CHARACTERS = "".join(c for c in map(chr, range(0x3001)) if re.match(f"[{WHITESPACE}]", c))
MAX_SEQUENCE_DEPTH, MAX_SEQUENCE_LENGTH = 5, 20
EXPRESSIONS = {" {2,}": " {2,}", r"\n": "\n", "\n": "\n"}
"""The supported regular expressions of `tokenizers`, with their equivalents for `re`."""


class UnsupportedComponentError(DataError):
    """A component that is not supported here: the file is valid, but asks for something that is not implemented."""


class Component:
    """One component of a `tokenizer.json`: its role (such as "normalizer"), its type, and its options."""

    def __init__(self, role: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise DataError(f"the {role} must be an object, not {reprlib.repr(values)}.")
        self.role, self.values = role, values
        self.kind = self.text("type")

    def unsupported(self, problem: str | None = None) -> UnsupportedComponentError:
        """The error to raise for this component."""
        return UnsupportedComponentError(
            f"the {self.role} {problem or f'has type {reprlib.repr(self.kind)}, which is not supported'}."
        )

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str) or len(value) > 1000:
            raise DataError(
                f"the {self.role} has {name} = {reprlib.repr(value)}, which is not a string of up to 1,000 characters."
            )
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise DataError(f"the {self.role} has {name} = {reprlib.repr(value)}, which is neither true nor false.")
        return default if value is None else value

    def character(self, name: str) -> str:
        value = self.text(name)
        if len(value) != 1:
            raise DataError(f"the {self.role} has {name} = {reprlib.repr(value)}, which is not a single character.")
        return value

    def require(self, allowed: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuse options with a value other than the allowed ones."""
        for name, allowed_values in allowed.items():
            value = self.values.get(name)
            if not any(value is other or value == other for other in allowed_values):
                raise self.unsupported(f"has {name} = {reprlib.repr(value)}, which is not supported")

    def replace(self) -> Callable[[str], str]:
        """The function of a Replace: of each {"String": ...} or {"Regex": ...} with a supported expression."""
        pattern, content = self._pattern(), self.text("content")
        return lambda text: pattern.sub(lambda _: content, text)

    def _pattern(self) -> re.Pattern[str]:
        value = self.values.get("pattern")
        text = value.get("String", value.get("Regex")) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(text, str) or not text or len(text) > 1000:
            raise DataError(f"the {self.role} has pattern = {reprlib.repr(value)}, which is not a valid pattern.")
        if "String" in value:
            return re.compile(re.escape(text))
        if text not in EXPRESSIONS:
            raise self.unsupported(f"has the regular expression {reprlib.repr(text)}, which is not supported")
        return re.compile(EXPRESSIONS[text])


def components_of(role: str, values: Any, list_name: str, depth: int = 0) -> list[Component]:
    """Parse a component as a list: empty for null; flattened for a Sequence, which lists others as `list_name`."""
    if values is None:
        return []
    component = Component(role, values)
    if component.kind != "Sequence":
        return [component]
    members = values.get(list_name)
    if not isinstance(members, list) or len(members) > MAX_SEQUENCE_LENGTH or depth > MAX_SEQUENCE_DEPTH:
        raise DataError(f"the {role} is a Sequence with invalid {list_name}: {reprlib.repr(members)}.")
    return [
        component
        for member in members
        if member is not None
        for component in components_of(role, member, list_name, depth + 1)
    ]
