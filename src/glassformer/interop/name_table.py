"""Weight mapping: a bidirectional table of tensor names, another program's and ours."""

import re
from collections.abc import Sequence

PLACEHOLDERS = {"stack": "encoder|decoder", "n": r"0|[1-9]\d{0,5}", "n+1": r"[1-9]\d{0,5}", "kind": "weight|bias"}
"""Patterns that placeholders in name templates match; any other placeholder matches a word."""
WORD = r"\w+"


class NameTable:
    """Table of another program's tensor names and ours, as templates: ("{stack}.fc1.{kind}", "{stack}.up_proj.{kind}").

    {n+1} counts layers from 1 where we count from 0. If two rows match, the first is used.
    """

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._to_ours = [(_pattern(theirs), ours) for theirs, ours in pairs]
        self._to_theirs = [(_pattern(ours), theirs) for theirs, ours in pairs]

    def ours(self, name: str) -> str | None:
        """Our name for the other program's tensor name; None if the table does not have it."""
        return _translated(name, self._to_ours)

    def theirs(self, name: str) -> str | None:
        """The other program's name for a tensor name of ours; None if the table does not have it."""
        return _translated(name, self._to_theirs)


def _translated(name: str, rows: Sequence[tuple[re.Pattern[str], str]]) -> str | None:
    for pattern, template in rows:
        if match := pattern.fullmatch(name):
            groups = match.groupdict()
            if "n_1" in groups:
                groups["n"] = str(int(groups["n_1"]) - 1)
            if "{n+1}" in template:
                groups["n+1"] = str(int(groups["n"]) + 1)
            return re.sub(r"\{([^}]+)\}", lambda group: groups[group[1]], template)  # noqa: B023 (used at once)
    return None


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{([^}]+)\}", template)
    parts[1::2] = [f"(?P<{name.replace('+', '_')}>{PLACEHOLDERS.get(name, WORD)})" for name in parts[1::2]]
    parts[0::2] = [re.escape(text) for text in parts[0::2]]
    return re.compile("".join(parts))
