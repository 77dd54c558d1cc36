"""Choosing whose looks are alignment, by measurement: every head at both moments, then sets of them.

The measure is the alignment error rate on a dev set, against links drawn by people or learned from the sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from glassformer.errors import InputError
from glassformer.inspection.alignment.alignment_error_rate import Links
from glassformer.inspection.alignment.ibm_aligner import learned_links
from glassformer.inspection.alignment.word_alignment import (
    AlignmentHead,
    AlignmentHeads,
    WordPair,
    default_alignment_heads,
    shares,
    spread,
    word_looks,
)
from glassformer.model import ModelConfig, Transformer
from glassformer.model.dims import Bool, Float, Int, Tensor

MEASURED = 500
"""Pairs that heads are measured on, at most: more change nothing but the time."""
CELLS = 2**25
"""Numbers held at once while measuring, 128 MB of them; wide models are measured on fewer pairs."""
LONGEST = 100
"""Source words of a pair to measure on: a few very long ones would leave room for few others."""
LEARNED = 2**22
"""Source words beside target words that links are learned from, at most: some 20,000 pairs of 14 words."""
MOST = 8
"""Heads in a choice."""
GAIN = 1e-4
"""By how much a further head must lower the error rate to be taken in."""


@dataclass(frozen=True)
class Chosen:
    """A choice, and what it was chosen among."""

    choice: AlignmentHeads
    singles: list[tuple[AlignmentHead, float]]
    """Every single head at both moments with its error rate, the best first."""
    simple: float
    """The error rate of the simple rule."""


def every_alignment_head(config: ModelConfig) -> list[AlignmentHead]:
    return [
        AlignmentHead(layer=layer, head=head, when=when)
        for layer in range(config.decoder_layers)
        for head in range(config.n_heads)
        for when in ("written", "read")
    ]


def choose_heads(
    model: Transformer,
    pairs: Sequence[WordPair],
    gold: Sequence[Links] | None = None,
    also: Sequence[WordPair] = (),
) -> Chosen:
    """The best single head, and others with it while the error rate falls; on these pairs, or evenly chosen ones.

    `gold`: links that people drew, a set for each pair. Without them they are learned from the pairs, and from those
    in `also`: some thousand are wanted (`silver.ENOUGH`).
    """
    looks = every_alignment_head(model.config)
    part = _part(pairs, len(looks))
    if gold is None:
        others = set(range(len(pairs))) - set(part)
        given = _silver([pairs[i] for i in part], [*(pairs[i] for i in sorted(others)), *also])
    elif len(gold) != len(pairs):
        raise InputError(f"There are links for {len(gold)} pairs, and {len(pairs)} pairs: one belongs to one.")
    else:
        given = [gold[i] for i in part]
    if not any(links.sure for links in given):
        raise InputError("None of the pairs has a sure link: there is nothing to measure heads by.")
    found = _measured(model, [pairs[i] for i in part], given, looks)
    singles = found.error_rates(found.looks)
    order = sorted(range(len(looks)), key=lambda i: (float(singles[i]), i))
    simple = [looks.index(look) for look in default_alignment_heads(model.config).looks]
    simple_aer = found.error_rate(simple)
    chosen = _greedily(found, order[0])
    if simple_aer < found.error_rate(chosen):
        chosen = simple
    choice = AlignmentHeads(
        looks=[looks[i] for i in chosen],
        warn_above=_warn_above(found, chosen),
        measured_by="silver" if gold is None else "gold",
        pairs=len(part),
        aer=round(found.error_rate(chosen), 6),
    )
    return Chosen(choice, [(looks[i], float(singles[i])) for i in order], simple_aer)


def evenly(count: int, wanted: int) -> list[int]:
    """So many of the numbers below `count`, evenly spread; all of them if they are fewer."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


def _silver(measured: Sequence[WordPair], others: Sequence[WordPair]) -> list[Links]:
    """Links for the pairs to measure on, learned from them and from as many others as fit."""
    texts, more = ([pair.texts for pair in own] for own in (measured, others))
    cells = sum(len(source) * len(target) for source, target in more)
    wanted = len(more) if cells <= LEARNED else max(1, int(len(more) * LEARNED / cells))
    return learned_links([*texts, *(more[i] for i in evenly(len(more), wanted))])[: len(texts)]


@dataclass(frozen=True)
class _Measured:
    """All target words of all pairs in a column, and what every head looks at from each. R words, W source places."""

    looks: Float[Tensor, "C R W"]
    sure: Bool[Tensor, "R W"]
    possible: Bool[Tensor, "R W"]
    spans: list[tuple[slice, int]]
    """Of each pair, its rows and the source words it has."""

    def error_rates(self, looks: Float[Tensor, "C R W"]) -> Float[Tensor, " C"]:
        """The alignment error rate of each, when every target word is linked to what it looks at most."""
        best = looks.argmax(-1)
        hits = self._hits(self.sure, best) + self._hits(self.possible, best)
        return 1 - hits / (len(self.sure) + self.sure.sum())

    def error_rate(self, chosen: Sequence[int]) -> float:
        """That of the mean over these."""
        return float(self.error_rates(self.looks[list(chosen)].mean(0, keepdim=True))[0])

    def _hits(self, given: Bool[Tensor, "R W"], best: Int[Tensor, "C R"]) -> Float[Tensor, " C"]:
        return given.gather(1, best.T).sum(0).double()


def _part(pairs: Sequence[WordPair], looks: int) -> list[int]:
    """Pairs to measure on: evenly from all that have words, as many as are wanted and fit."""
    usable = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    if not usable:
        raise InputError("None of the pairs has words on both sides.")
    usable = [i for i in usable if len(pairs[i].source) <= LONGEST] or usable
    widest = max(len(pairs[i].source) for i in usable)
    rows = sum(len(pairs[i].target) for i in usable) / len(usable)
    fitting = max(1, int(CELLS / (looks * rows * widest)))
    return [usable[i] for i in evenly(len(usable), min(MEASURED, fitting))]


def _measured(
    model: Transformer, pairs: Sequence[WordPair], gold: Sequence[Links], looks: Sequence[AlignmentHead]
) -> _Measured:
    """Everything that is asked of heads and sets of them, from one pass through the model."""
    begins = [0]
    for pair in pairs:
        begins.append(begins[-1] + len(pair.target))
    rows, widest = begins[-1], max(len(pair.source) for pair in pairs)
    looked = torch.zeros(len(looks), rows, widest)
    given = {"sure": torch.zeros(rows, widest, dtype=torch.bool), "possible": torch.zeros(rows, widest).bool()}
    for number, own in word_looks(model, pairs, looks):
        looked[:, begins[number] : begins[number + 1], : own.shape[-1]] = own
    for first, pair, links in zip(begins[:-1], pairs, gold, strict=True):
        for kind, table in given.items():
            for source, target in getattr(links, kind):
                if source >= len(pair.source) or target >= len(pair.target):
                    raise InputError(
                        f"The link {source}-{target} leads out of a pair of {len(pair.source)} and "
                        f"{len(pair.target)} words, counted from 0."
                    )
                table[first + target, source] = True
    spans = [(slice(*ends), len(pair.source)) for ends, pair in zip(pairwise(begins), pairs, strict=True)]
    return _Measured(looked, given["sure"], given["possible"], spans)


def _greedily(found: _Measured, first: int) -> list[int]:
    """Take in, again and again, the head that lowers the error rate most; until none does."""
    chosen = [first]
    while len(chosen) < MOST:
        rates = found.error_rates(found.looks + found.looks[chosen].sum(0))
        rates[chosen] = 1
        best = int(rates.argmin())
        if found.error_rate([*chosen, best]) > found.error_rate(chosen) - GAIN:
            break
        chosen.append(best)
    return chosen


def _warn_above(found: _Measured, chosen: Sequence[int]) -> float:
    """The lowest spread above which fewer than half of the links were right; 1 where there is none such.

    Asked of target words for which any link is possible.
    """
    looks = found.looks[list(chosen)].mean(0)
    measured: list[tuple[float, bool]] = []
    for rows, width in found.spans:
        weights = shares(looks[rows, :width])
        possible = found.possible[rows, :width]
        hits = possible.gather(1, weights.argmax(-1, keepdim=True))[:, 0]
        own = zip(spread(weights).tolist(), hits.tolist(), possible.any(-1).tolist(), strict=True)
        measured += [(wide, is_right) for wide, is_right, known in own if known]
    measured.sort(reverse=True)
    right, warn_above = 0, 1.0
    for count, (_, is_right) in enumerate(measured, start=1):
        right += is_right
        if right < count / 2:
            warn_above = measured[count][0] if count < len(measured) else 0.0
    return round(warn_above, 4)
