"""The normal form of a text, before it is cut."""

import unicodedata
from collections.abc import Callable
from typing import Any, Literal

from glassformer.data.tokenizer_pipeline.charsmap import CharsMap
from glassformer.data.tokenizer_pipeline.component import SPACES, Component, parts_of
from glassformer.errors import DataError

Step = Callable[[str], str]


def normal_form(values: Any) -> list[Step]:
    """The steps that a `normalizer` describes."""
    return [_step(part) for part in parts_of("normalizer", values, "normalizers")]


def _step(part: Component) -> Step:
    match part.kind:
        case "Precompiled":
            coded = part.values.get("precompiled_charsmap")
            if not isinstance(coded, str):
                raise DataError("its normalizer has no precompiled_charsmap.")
            return CharsMap(coded)
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            return _unicode(form)
        case "Lowercase":
            return lambda text: "".join(letter.lower() for letter in text)  # one by one: no sigma knows that it is last
        case "Strip":
            return Strip(part.flag("strip_left", True), part.flag("strip_right", True))
        case "Prepend":
            before = part.text("prepend")
            return lambda text: before + text if text else text
        case "Replace":
            pattern, content = part.pattern(), part.text("content")
            return lambda text: pattern.sub(lambda _: content, text)
    raise part.strange()


def _unicode(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> Step:
    return lambda text: unicodedata.normalize(form, text)


class Strip:
    """Without the spaces at its ends."""

    def __init__(self, left: bool, right: bool) -> None:
        self._left, self._right = left, right

    def __call__(self, text: str) -> str:
        text = text.lstrip(SPACES) if self._left else text
        return text.rstrip(SPACES) if self._right else text

    def takes_from_front(self, text: str) -> bool:
        return self._left and text[:1] in SPACES and text != ""
