"""Evidence for the candidates of a pronoun, and the decision from all evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

MIN_FOLLOWING_LEAD = 0.2
"""Minimum lead, as a share of substitutions, of the candidate that the pronoun follows most often."""
MIN_PRONOUN_LEAD_NATS = 0.5
"""Minimum lead in log-probability of the candidate whose pronoun is the most likely."""


@dataclass(frozen=True)
class PronounEvidence:
    """One measure of evidence, a row of the report: one value per candidate; larger values speak for the candidate."""

    kind: str
    name: str
    values: list[float]
    votes: bool = True
    """Whether the row is counted; rows of single layers are only shown."""
    min_lead: float = 0.0
    """Minimum lead: the row points to no candidate if the best one's lead is not larger than this."""
    note: str = ""

    @property
    def points_to(self) -> int | None:
        """Index of the candidate with the largest value; None if its lead is too small."""
        return self.values.index(max(self.values)) if _lead(self.values) > self.min_lead else None


def decide(evidence: Sequence[PronounEvidence]) -> int | None:
    """Index of the candidate whose substitution changes the pronoun; if unclear, the one with the likelier pronoun.

    Only behaviour decides. Internal evidence does not: it misleads most (docs/pronoun-resolution.md has the numbers).
    """
    rows = {row.kind: row for row in evidence if row.votes}
    for kind, min_lead in (("following", MIN_FOLLOWING_LEAD), ("pronoun", MIN_PRONOUN_LEAD_NATS)):
        if kind in rows and _lead(rows[kind].values) >= min_lead:
            return rows[kind].points_to
    return None


def _lead(values: Sequence[float]) -> float:
    first, second = sorted(values, reverse=True)[:2]
    return first - second
