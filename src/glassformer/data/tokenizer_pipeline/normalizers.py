"""Normalizers of a `tokenizer.json`: applied to a text before pre-tokenization."""

import unicodedata
from collections.abc import Callable
from typing import Any, Literal

from glassformer.data.tokenizer_pipeline.charsmap import CharsMap
from glassformer.data.tokenizer_pipeline.component import WHITESPACE_CHARACTERS, Component, components_of
from glassformer.errors import DataError

NormalizerStep = Callable[[str], str]


def normalizer_steps(values: Any) -> list[NormalizerStep]:
    """The steps that the `normalizer` of a `tokenizer.json` describes."""
    return [_step(component) for component in components_of("normalizer", values, "normalizers")]


def _step(component: Component) -> NormalizerStep:
    match component.kind:
        case "Precompiled":
            encoded = component.values.get("precompiled_charsmap")
            if not isinstance(encoded, str):
                raise DataError("the normalizer has no precompiled_charsmap.")
            return CharsMap(encoded)
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            return _unicode(form)
        case "Lowercase":
            # Per character: str.lower on the whole text would treat a final sigma differently.
            return lambda text: "".join(character.lower() for character in text)
        case "Strip":
            return Strip(component.flag("strip_left", True), component.flag("strip_right", True))
        case "Prepend":
            prefix = component.text("prepend")
            return lambda text: prefix + text if text else text
        case "Replace":
            pattern, content = component.pattern(), component.text("content")
            return lambda text: pattern.sub(lambda _: content, text)
    raise component.unsupported()


def _unicode(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> NormalizerStep:
    return lambda text: unicodedata.normalize(form, text)


class Strip:
    """Normalizer that removes leading and trailing whitespace."""

    def __init__(self, left: bool, right: bool) -> None:
        self._left, self._right = left, right

    def __call__(self, text: str) -> str:
        text = text.lstrip(WHITESPACE_CHARACTERS) if self._left else text
        return text.rstrip(WHITESPACE_CHARACTERS) if self._right else text

    def strips_start_of(self, text: str) -> bool:
        return self._left and text[:1] in WHITESPACE_CHARACTERS and text != ""
