"""Pre-tokenizers of a `tokenizer.json`: split a normalised text into words, which the model then splits one by one."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from glassformer.data.subword_segmentation import WHITESPACE, bytes_to_unicode, gpt2_pattern
from glassformer.data.tokenizer_pipeline.component import Component, components_of
from glassformer.errors import DataError


class Span(NamedTuple):
    """A part of a text, and whether it is at the start of the text."""

    text: str
    first: bool


PreTokenizerStep = Callable[[Span], Iterable[Span]]
DelimiterFinder = Callable[[str], Iterable[tuple[int, int]]]
"""Function that finds the start and end of each delimiter in a text."""
BEHAVIOURS = ("Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext")


def pre_tokenizer_steps(values: Any) -> list[PreTokenizerStep]:
    """The steps that the `pre_tokenizer` of a `tokenizer.json` describes."""
    return [_step(component) for component in components_of("pre_tokenizer", values, "pretokenizers")]


def pre_tokenize(text: str, first: bool, steps: Iterable[PreTokenizerStep]) -> list[str]:
    """Split a text into words by all steps."""
    spans = [Span(text, first)] if text else []
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


def split_at_delimiters(text: str, delimiters: Iterable[tuple[int, int]], behaviour: str) -> list[tuple[int, int]]:
    """Split a text; delimiters are isolated, removed, or merged with a neighbour. Returns each part's start and end."""
    parts: list[tuple[int, int, bool]] = []
    end = 0
    for start, stop in delimiters:
        if end < start:
            parts.append((end, start, False))
        parts.append((start, stop, True))
        end = stop
    if end < len(text):
        parts.append((end, len(text), False))
    if behaviour == "Removed":
        return [(start, stop) for start, stop, is_delimiter in parts if not is_delimiter]
    if behaviour == "MergedWithNext":
        mirrored = [(-stop, -start, is_delimiter) for start, stop, is_delimiter in reversed(parts)]
        return [(-stop, -start) for start, stop in reversed(_merge_parts(mirrored, "MergedWithPrevious"))]
    return _merge_parts(parts, behaviour)


def _merge_parts(parts: Iterable[tuple[int, int, bool]], behaviour: str) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    after_delimiter = False
    for start, stop, is_delimiter in parts:
        if behaviour == "MergedWithPrevious":
            merges = is_delimiter and not after_delimiter
        else:
            merges = is_delimiter == after_delimiter
        if merged and merges and behaviour != "Isolated":
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
        after_delimiter = is_delimiter
    return merged


def _step(component: Component) -> PreTokenizerStep:
    match component.kind:
        case "Metaspace":
            return _metaspace(component)
        case "ByteLevel":
            return _byte_level(component)
        case "WhitespaceSplit":
            return _split_step(_matches(re.compile(f"[{WHITESPACE}]")), "Removed")
        case "Digits":
            behaviour = "Isolated" if component.flag("individual_digits", False) else "Contiguous"
            return _split_step(_characters(_is_numeric), behaviour)
        case "Punctuation":
            return _split_step(_characters(_is_punctuation), _behaviour(component, "Isolated"))
        case "Split":
            if component.flag("invert", False):
                raise component.unsupported("is an inverted Split, which is not supported")
            return _split_step(_matches(component.pattern()), _behaviour(component))
    raise component.unsupported()


def _metaspace(component: Component) -> PreTokenizerStep:
    marker, scheme = component.character("replacement"), prepend_scheme(component)
    splits = component.flag("split", True)
    split_at_marker = _split_step(_matches(re.compile(re.escape(marker))), "MergedWithNext")

    def step(span: Span) -> Iterable[Span]:
        text = span.text.replace(" ", marker)
        if not text.startswith(marker) and (scheme == "always" or (scheme == "first" and span.first)):
            text = marker + text
        marked = Span(text, span.first)
        return split_at_marker(marked) if splits else [marked]

    return step


def _byte_level(component: Component) -> PreTokenizerStep:
    add_prefix_space, use_regex = component.flag("add_prefix_space", True), component.flag("use_regex", True)
    characters = bytes_to_unicode()

    def step(span: Span) -> Iterable[Span]:
        text = " " + span.text if add_prefix_space and not span.text.startswith(" ") else span.text
        for word in gpt2_pattern().findall(text) if use_regex else [text]:
            yield Span("".join(characters[byte] for byte in word.encode()), span.first)

    return step


def _split_step(find: DelimiterFinder, behaviour: str) -> PreTokenizerStep:
    def step(span: Span) -> Iterable[Span]:
        for start, stop in split_at_delimiters(span.text, find(span.text), behaviour):
            yield Span(span.text[start:stop], span.first and start == 0)

    return step


def _behaviour(component: Component, default: str | None = None) -> str:
    value = component.values.get("behavior", default)
    if value not in BEHAVIOURS:
        raise DataError(f"the {component.role} has behavior = {value!r:.50}; expected one of {', '.join(BEHAVIOURS)}.")
    return str(value)


def _matches(pattern: re.Pattern[str]) -> DelimiterFinder:
    return lambda text: (match.span() for match in pattern.finditer(text))


def _characters(is_delimiter: Callable[[str], bool]) -> DelimiterFinder:
    return lambda text: ((index, index + 1) for index, character in enumerate(text) if is_delimiter(character))


def _is_numeric(character: str) -> bool:
    return unicodedata.category(character)[0] == "N"


def _is_punctuation(character: str) -> bool:
    return character in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or unicodedata.category(character)[0] == "P"
