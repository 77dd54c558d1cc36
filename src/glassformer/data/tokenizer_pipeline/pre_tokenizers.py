"""Pre-tokenizers of a `tokenizer.json`: split a normalised text into words, which the model then splits one by one."""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from glassformer.data.subword_segmentation import WHITESPACE, bytes_to_unicode, gpt2_pattern
from glassformer.data.tokenizer_pipeline.component import Component, components_of


class Span(NamedTuple):
    """A part of a text, and how many of its characters, at its start, stand for the text's first character."""

    text: str
    leading: int


PreTokenizerStep = Callable[[Span], Iterable[Span]]


def pre_tokenizer_steps(values: Any) -> list[PreTokenizerStep]:
    """The steps that the `pre_tokenizer` of a `tokenizer.json` describes."""
    return [_step(component) for component in components_of("pre_tokenizer", values, "pretokenizers")]


def pre_tokenize(text: str, leading: int, steps: Iterable[PreTokenizerStep]) -> list[str]:
    """Split a text into words by all steps."""
    spans = [Span(text, leading)] if text else []
    for step in steps:
        spans = [part for span in spans for part in step(span) if part.text]
    return [span.text for span in spans]


def prepend_scheme(component: Component) -> str:
    """When a Metaspace component prepends ▁: "always", "first" or "never". Older files have `add_prefix_space`."""
    scheme = component.values.get("prepend_scheme")
    if scheme is None:
        return "always" if component.flag("add_prefix_space", True) else "never"
    if scheme not in ("always", "first", "never"):
        raise component.unsupported(f"has prepend_scheme = {scheme!r:.50}, which is not supported")
    return str(scheme)


def _step(component: Component) -> PreTokenizerStep:
    match component.kind:
        case "Metaspace":
            return _metaspace(component)
        case "ByteLevel":
            return _byte_level(component)
        case "WhitespaceSplit":
            return lambda span: _parts(span, re.compile(f"[^{WHITESPACE}]+"))
    raise component.unsupported()


def _parts(span: Span, pattern: re.Pattern[str]) -> Iterable[Span]:
    for match in pattern.finditer(span.text):
        yield Span(match[0], max(0, span.leading - match.start()))


def _metaspace(component: Component) -> PreTokenizerStep:
    marker, scheme = component.character("replacement"), prepend_scheme(component)
    splits, mark = component.flag("split", True), re.escape(marker)
    word = re.compile(f"{mark}?[^{mark}]+|{mark}")

    def step(span: Span) -> Iterable[Span]:
        marked = Span(span.text.replace(" ", marker), span.leading)
        if not marked.text.startswith(marker) and (scheme == "always" or (scheme == "first" and span.leading)):
            marked = Span(marker + marked.text, span.leading + bool(span.leading))
        return _parts(marked, word) if splits else [marked]

    return step


def _byte_level(component: Component) -> PreTokenizerStep:
    add_prefix_space, use_regex = component.flag("add_prefix_space", True), component.flag("use_regex", True)
    characters = bytes_to_unicode()

    def step(span: Span) -> Iterable[Span]:
        text = " " + span.text if add_prefix_space and not span.text.startswith(" ") else span.text
        for word in gpt2_pattern().findall(text) if use_regex else [text]:
            yield Span("".join(characters[byte] for byte in word.encode()), span.leading)

    return step
