"""Word alignments and selected heads as text and JSON."""

from collections.abc import Sequence
from typing import Any

from glassformer.inspection.alignment.head_selection import HeadSelection
from glassformer.inspection.alignment.word_alignment import Link, WordPair
from glassformer.text_layout import columns, paragraph

HEADS_SHOWN = 10


def alignment_json(pair: WordPair, links: Sequence[Link]) -> dict[str, Any]:
    """Words and word links of a sentence pair, for JSON."""
    source, target = pair.texts
    return {
        "source_words": source,
        "target_words": target,
        "alignment": [
            {"source": link.source, "target": link.target, "weight": round(link.weight, 4)}
            | ({"uncertain": True} if link.uncertain else {})
            for link in links
        ],
    }


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


def selection_json(selection: HeadSelection) -> dict[str, Any]:
    """The heads selected for word alignment, and every head with its error rate, for JSON."""
    singles = [head.model_dump() | {"aer": round(aer, 6)} for head, aer in selection.singles]
    return {"choice": selection.choice.model_dump(), "singles": singles, "simple_rule_aer": round(selection.simple, 6)}


def selection_text(selection: HeadSelection) -> str:
    """The heads selected for word alignment, as text: a table of the best heads and a sentence."""
    rows = [("layer", "head", "target token is", "AER")]
    rows += [
        (str(head.layer), str(head.head), head.target_token, f"{aer:.4f}")
        for head, aer in selection.singles[:HEADS_SHOWN]
    ]
    choice = selection.choice
    measured_on = "gold links" if choice.measured_by == "gold" else "links learned from the sentences"
    heads = "; ".join(map(str, choice.heads))
    return "\n\n".join(
        [
            f"The best single heads on {choice.pairs:,} pairs, measured on {measured_on}",
            columns(rows, "rrlr"),
            paragraph(
                f"Chosen: {heads}. AER {choice.aer:.4f}; the mean over the heads of the second-to-last layer has "
                f"{selection.simple:.4f}. A link is uncertain where the entropy of its attention weights, from 0 to 1, "
                f"is above {choice.warn_above:.2f}."
            ),
        ]
    )
