"""Weight mapping: a bidirectional table of tensor names, another program's and ours."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PLACEHOLDERS = {"stack": "encoder|decoder", "n": r"0|[1-9]\d{0,5}", "kind": "weight|bias"}
"""Patterns that placeholders in name templates match; any other placeholder matches a word."""


@dataclass(frozen=True)
class _Row:
    theirs: str
    ours: str
    reads_theirs: re.Pattern[str]
    reads_ours: re.Pattern[str]


class NameTable:
    """Table of another program's tensor names and ours, as templates: ("{stack}.fc1.{kind}", "{stack}.up_proj.{kind}").

    {n+1} counts layers from 1 where we count from 0. If two rows match, the first is used.
    """

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._rows = [_Row(theirs, ours, _pattern(theirs), _pattern(ours)) for theirs, ours in pairs]

    def ours(self, name: str) -> str | None:
        """Our name for the other program's tensor name; None if the table does not have it."""
        return next(_translated(name, ((row.reads_theirs, row.ours) for row in self._rows)), None)

    def theirs(self, name: str) -> str | None:
        """The other program's name for a tensor name of ours; None if the table does not have it."""
        return next(_translated(name, ((row.reads_ours, row.theirs) for row in self._rows)), None)


def _translated(name: str, rows: Iterable[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    for pattern, template in rows:
        if match := pattern.fullmatch(name):
            groups = match.groupdict()
            if "n_1" in groups:
                groups["n"] = str(int(groups.pop("n_1")) - 1)
            if "{n+1}" in template:
                groups["n+1"] = str(int(groups["n"]) + 1)
            yield re.sub(r"\{([^}]+)\}", lambda group: groups[group[1]], template)  # noqa: B023 (used at once)


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{([^}]+)\}", template)
    parts[1::2] = [f"(?P<{name.replace('+', '_')}>{_group(name)})" for name in parts[1::2]]
    parts[0::2] = [re.escape(text) for text in parts[0::2]]
    return re.compile("".join(parts))


def _group(name: str) -> str:
    return r"[1-9]\d{0,5}" if name == "n+1" else PLACEHOLDERS.get(name, r"\w+")
