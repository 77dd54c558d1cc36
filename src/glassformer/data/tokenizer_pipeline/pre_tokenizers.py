"""A text in its normal form as words: what a model cuts one by one, since no piece goes beyond a word."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from glassformer.data.subword_segmentation import SPACE, byte_letters, gpt2_words
from glassformer.data.tokenizer_pipeline.component import Component, parts_of
from glassformer.errors import DataError


class Span(NamedTuple):
    """Some of a text, and whether the text begins with it."""

    text: str
    first: bool


Splitter = Callable[[Span], Iterable[Span]]
Finder = Callable[[str], Iterable[tuple[int, int]]]
"""From where to where each delimiter goes."""
BEHAVIOURS = ("Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext")


def splitters(values: Any) -> list[Splitter]:
    """The steps that a `pre_tokenizer` describes."""
    return [_splitter(part) for part in parts_of("pre_tokenizer", values, "pretokenizers")]


def words_of(text: str, first: bool, steps: Iterable[Splitter]) -> list[str]:
    """A text after all steps."""
    spans = [Span(text, first)] if text else []
    for step in steps:
        spans = [after for span in spans for after in step(span) if after.text]
    return [span.text for span in spans]


def prepends(part: Component) -> str:
    """When a Metaspace puts its sign before a text: always, first or never. Older files say it in another way."""
    scheme = part.values.get("prepend_scheme")
    if scheme is None:
        return "always" if part.flag("add_prefix_space", True) else "never"
    if scheme not in ("always", "first", "never"):
        raise part.strange(f"has prepend_scheme = {scheme!r:.50}, which is not known here")
    return str(scheme)


def split(text: str, found: Iterable[tuple[int, int]], behaviour: str) -> list[tuple[int, int]]:
    """From where to where the parts of a text go, with its delimiters: alone, away, or with a neighbour."""
    parts: list[tuple[int, int, bool]] = []
    end = 0
    for start, stop in found:
        if end < start:
            parts.append((end, start, False))
        parts.append((start, stop, True))
        end = stop
    if end < len(text):
        parts.append((end, len(text), False))
    if behaviour == "Removed":
        return [(start, stop) for start, stop, is_found in parts if not is_found]
    if behaviour == "MergedWithNext":
        mirrored = [(-stop, -start, is_found) for start, stop, is_found in reversed(parts)]
        return [(-stop, -start) for start, stop in reversed(_joined(mirrored, "MergedWithPrevious"))]
    return _joined(parts, behaviour)


def _joined(parts: Iterable[tuple[int, int, bool]], behaviour: str) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    before = False
    for start, stop, is_found in parts:
        merges = is_found and not before if behaviour == "MergedWithPrevious" else is_found == before
        if joined and merges and behaviour != "Isolated":
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
        before = is_found
    return joined


def _splitter(part: Component) -> Splitter:
    match part.kind:
        case "Metaspace":
            return _metaspace(part)
        case "ByteLevel":
            return _byte_level(part)
        case "WhitespaceSplit":
            return _by(_matches(re.compile(f"[{SPACE}]")), "Removed")
        case "Digits":
            return _by(_letters(_is_numeric), "Isolated" if part.flag("individual_digits", False) else "Contiguous")
        case "Punctuation":
            return _by(_letters(_is_punctuation), _behaviour(part, "Isolated"))
        case "Split":
            if part.flag("invert", False):
                raise part.strange("is a Split that is inverted, which is not known here")
            return _by(_matches(part.pattern()), _behaviour(part))
    raise part.strange()


def _metaspace(part: Component) -> Splitter:
    sign, scheme, apart = part.letter("replacement"), prepends(part), part.flag("split", True)
    pieces = _by(_matches(re.compile(re.escape(sign))), "MergedWithNext")

    def step(span: Span) -> Iterable[Span]:
        text = span.text.replace(" ", sign)
        if not text.startswith(sign) and (scheme == "always" or (scheme == "first" and span.first)):
            text = sign + text
        marked = Span(text, span.first)
        return pieces(marked) if apart else [marked]

    return step


def _byte_level(part: Component) -> Splitter:
    prefix, apart = part.flag("add_prefix_space", True), part.flag("use_regex", True)
    letters = byte_letters()

    def step(span: Span) -> Iterable[Span]:
        text = " " + span.text if prefix and not span.text.startswith(" ") else span.text
        for word in gpt2_words().findall(text) if apart else [text]:
            yield Span("".join(letters[byte] for byte in word.encode()), span.first)

    return step


def _by(find: Finder, behaviour: str) -> Splitter:
    def step(span: Span) -> Iterable[Span]:
        for start, stop in split(span.text, find(span.text), behaviour):
            yield Span(span.text[start:stop], span.first and start == 0)

    return step


def _behaviour(part: Component, otherwise: str | None = None) -> str:
    value = part.values.get("behavior", otherwise)
    if value not in BEHAVIOURS:
        raise DataError(f"its {part.role} has behavior = {value!r:.50}, which is none.")
    return str(value)


def _matches(pattern: re.Pattern[str]) -> Finder:
    return lambda text: (match.span() for match in pattern.finditer(text))


def _letters(wanted: Callable[[str], bool]) -> Finder:
    return lambda text: ((place, place + 1) for place, letter in enumerate(text) if wanted(letter))


def _is_numeric(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "N"


def _is_punctuation(letter: str) -> bool:
    return letter in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or unicodedata.category(letter)[0] == "P"
