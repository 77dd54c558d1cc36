"""A row of the table, and what all rows come to."""

from collections.abc import Sequence
from dataclasses import dataclass

CLEAR = 0.2
"""By how much the pronoun must follow one candidate more often than the others."""
NATS = 0.5
"""By how much one candidate's pronoun must be likelier than the others'."""


@dataclass(frozen=True)
class PronounEvidence:
    """One row: a number a candidate, the larger the more."""

    kind: str
    name: str
    values: list[float]
    votes: bool = True
    """Whether it is counted; the rows of single layers are only shown."""
    least: float = 0.0
    """A lead of no more than this points to nobody."""
    note: str = ""

    @property
    def points_to(self) -> int | None:
        """The candidate with the largest number; None where another is too close."""
        return self.values.index(max(self.values)) if _ahead(self.values) > self.least else None


def decide(evidence: Sequence[PronounEvidence]) -> int | None:
    """What the model does decides: whom the pronoun follows; where that is not clear, whose pronoun is likelier.

    What one sees inside decides nothing: of all evidence it misleads most (docs/who-is-it.md has the numbers).
    """
    rows = {row.kind: row for row in evidence if row.votes}
    for kind, margin in (("following", CLEAR), ("pronoun", NATS)):
        if kind in rows and _ahead(rows[kind].values) >= margin:
            return rows[kind].points_to
    return None


def _ahead(values: Sequence[float]) -> float:
    first, second = sorted(values, reverse=True)[:2]
    return first - second
