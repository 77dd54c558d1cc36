"""Normalizers of a `tokenizer.json`: applied to a text before pre-tokenization."""

from collections.abc import Callable
from typing import Any

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
        case "Strip":
            component.require({"strip_left": (False,), "strip_right": (True,)})
            return lambda text: text.rstrip(WHITESPACE_CHARACTERS)
        case "Replace":
            return component.replace()
    raise component.unsupported()
