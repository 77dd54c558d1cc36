"""Counts of word links, and selected heads as text and JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glassformer.decoding.attention_links import Link
from glassformer.text_layout import columns, paragraph

if TYPE_CHECKING:  # it imports torch
    from glassformer.inspection.alignment.head_selection import HeadSelection

HEADS_SHOWN = 10


class LinkCounts:
    """Counts of word links, and of uncertain ones."""

    def __init__(self) -> None:
        self.links = self.uncertain = 0

    def add(self, alignments: Sequence[Sequence[Link]]) -> None:
        self.links += sum(map(len, alignments))
        self.uncertain += sum(link.uncertain for links in alignments for link in links)

    def summary(self, is_unmeasured: bool) -> str:
        text = f"{self.uncertain:,} of {self.links:,} links are uncertain."
        if is_unmeasured:
            text += " No heads were chosen for this model yet: --choose measures which ones align best."
        return text


def selection_json(selection: "HeadSelection") -> dict[str, Any]:
    """The heads selected for word alignment, and every head with its error rate, for JSON."""
    singles = [head.model_dump() | {"aer": round(aer, 6)} for head, aer in selection.singles]
    return {"choice": selection.choice.model_dump(), "singles": singles, "simple_rule_aer": round(selection.simple, 6)}


def selection_text(selection: "HeadSelection") -> str:
    """The heads selected for word alignment, as text: a table of the best heads and a sentence."""
    rows = [("layer", "head", "target token is", "AER")]
    rows += [
        (str(head.layer), str(head.head), head.target_token, f"{aer:.4f}")
        for head, aer in selection.singles[:HEADS_SHOWN]
    ]
    choice = selection.choice
    measured_on = "gold links" if choice.measured_by == "gold" else "links learned from the sentences"
    heads = "; ".join(map(str, choice.heads))
    heading = f"The best single heads on {choice.pairs:,} pairs, measured on {measured_on}"
    summary = (
        f"Chosen: {heads}. AER {choice.aer:.4f}; the mean over the heads of the second-to-last layer has "
        f"{selection.simple:.4f}. A link is uncertain where the entropy of its attention weights, from 0 to 1, is "
        f"above {choice.warn_above:.2f}."
    )
    return "\n\n".join((heading, columns(rows, "rrlr"), paragraph(summary)))
