"""Texts as a caller gives them: one, or many in anything that can be iterated. Everything else is refused by name."""

from collections.abc import Iterable, Mapping, Set

from glassformer.errors import InputError


def listed_texts(texts: Iterable[str], name: str = "texts") -> list[str]:
    """One text, or the texts of a list, a generator, a column of a table, ..., as a list.

    `name`: of the argument, for the error about what is no text.
    """
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes | bytearray | Mapping | Set) or hasattr(texts, "columns"):  # these iterate, too
        raise InputError(f"{name} should be text or a list of texts; it is {_described(texts)}.")
    try:
        items = iter(texts)
    except TypeError:
        raise InputError(f"{name} should be text or a list of texts; it is {_described(texts)}.") from None
    listed = list(items)
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            way_out = ': leave it out, or use "", which stays blank' if _is_empty(text) else ""
            raise InputError(f"{name}[{number}] should be text; it is {_described(text)}{way_out}.")
    return listed


def listed_pairs(sources: Iterable[str], targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Both sides of some pairs of texts, as lists of the same length."""
    sides = listed_texts(sources, "sources"), listed_texts(targets, "targets")
    if len(sides[0]) != len(sides[1]):
        raise InputError(f"There are {len(sides[0])} sources for {len(sides[1])} targets: give one target each.")
    return sides


def check_text(text: str) -> None:
    """Refuse what is no text, and lone surrogates: Python strings may contain them, UTF-8 may not."""
    if not isinstance(text, str):
        raise InputError(f"Expected text; it is {_described(text)}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{text!r} contains an unpaired surrogate, which is not a valid character: remove it."
        ) from None


def _is_empty(value: object) -> bool:
    """Whether a value stands for an empty cell of a table."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def _described(value: object) -> str:
    """What a value is that is no text, and how to get text from it."""
    kind = type(value).__name__
    if _is_empty(value):
        return repr(value)
    if isinstance(value, bytes | bytearray):
        return f'{kind}: decode it first, as in text.decode("utf-8")'
    if isinstance(value, Mapping):
        return f"of type {kind}: give its values or its keys, as a list"
    if isinstance(value, Set):
        return f"of type {kind}, which has no order: give a list"
    if hasattr(value, "columns"):
        return f"a table ({kind}): give one of its columns"
    return f"of type {kind}"
