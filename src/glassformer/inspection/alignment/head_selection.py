"""Selection of cross-attention heads for word alignment: measures every head, then greedily adds heads to the best.

Heads are ranked by alignment error rate on a dev set, against links drawn by people (gold) or learned with IBM model 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch

from glassformer.data.word_spans import WordPair
from glassformer.decoding.alignment_choice import AlignmentHead, AlignmentHeads, default_alignment_heads
from glassformer.decoding.attention_links import first_largest, shares, spread
from glassformer.errors import InputError
from glassformer.inspection.alignment.alignment_error_rate import Links
from glassformer.inspection.alignment.ibm_aligner import learned_links
from glassformer.inspection.alignment.word_alignment import word_attention
from glassformer.model import ModelConfig, Transformer
from glassformer.model.dims import Bool, Float, Tensor

MAX_MEASURED_PAIRS = 500
"""Maximum number of pairs that heads are measured on: more change nothing but the time."""
MAX_MEASURED_FLOATS = 2**25
"""Maximum number of attention weights held while measuring (128 MB); wide models are measured on fewer pairs."""
MAX_SOURCE_WORDS = 100
"""Maximum source length of a pair to measure on: with a few very long pairs, few others would fit in memory."""
MAX_LEARNING_CELLS = 2**22
"""Maximum sum of source words × target words that links are learned from: about 20,000 pairs of 14 words."""
MAX_HEADS = 8
"""Maximum number of heads in a selection."""
MIN_AER_GAIN = 1e-4
"""Minimum decrease of the error rate for which another head is added."""


@dataclass(frozen=True)
class HeadSelection:
    """Cross-attention heads selected for word alignment, and the measurements they were selected by."""

    choice: AlignmentHeads
    singles: list[tuple[AlignmentHead, float]]
    """Every single head at both time steps with its error rate, the best first."""
    simple: float
    """The error rate of the default heads (`default_alignment_heads`)."""


def every_alignment_head(config: ModelConfig) -> list[AlignmentHead]:
    """All candidate heads: every cross-attention head, at the step that writes a token and at the one that reads it."""
    return [
        AlignmentHead(layer=layer, head=head, target_token=target_token)
        for layer in range(config.decoder_layers)
        for head in range(config.n_heads)
        for target_token in ("output", "input")
    ]


def choose_heads(
    model: Transformer, pairs: Sequence[WordPair], gold: Sequence[Links] | None = None, also: Sequence[WordPair] = ()
) -> HeadSelection:
    """Select alignment heads: the best one, then further ones while the error rate falls, on a sample of the pairs.

    `gold`: links drawn by people, one set per pair. Without them, links are learned with IBM model 1 from the pairs and
    from those in `also`; about a thousand pairs are needed (`ibm_aligner.ENOUGH_PAIRS`).
    """
    heads = every_alignment_head(model.config)
    sample = _sample(pairs, len(heads))
    measured = _measure(model, [pairs[i] for i in sample], _reference(pairs, sample, gold, also), heads)
    singles = measured.error_rates(measured.attention)
    order = sorted(range(len(heads)), key=lambda i: (float(singles[i]), i))
    default = [heads.index(head) for head in default_alignment_heads(model.config).heads]
    default_aer = measured.error_rate(default)
    selected = _greedy_selection(measured, order[0])
    if default_aer < measured.error_rate(selected):
        selected = default
    choice = AlignmentHeads(
        heads=[heads[i] for i in selected],
        warn_above=_warn_above(measured, selected),
        measured_by="learned" if gold is None else "gold",
        pairs=len(sample),
        aer=round(measured.error_rate(selected), 6),
    )
    return HeadSelection(choice, [(heads[i], float(singles[i])) for i in order], default_aer)


def _reference(
    pairs: Sequence[WordPair], sample: Sequence[int], gold: Sequence[Links] | None, also: Sequence[WordPair]
) -> list[Links]:
    """The links that the sample is measured against: the given ones, or learned ones."""
    if gold is None:
        others = set(range(len(pairs))) - set(sample)
        links = _learned([pairs[i] for i in sample], [*(pairs[i] for i in sorted(others)), *also])
    elif len(gold) == len(pairs):
        links = [gold[i] for i in sample]
    else:
        raise InputError(
            f"There are gold links for {len(gold)} pairs, but {len(pairs)} sentence pairs. Expected links for each."
        )
    if not any(pair_links.sure for pair_links in links):
        raise InputError("No pair has a sure link, so heads cannot be measured: give gold links such as 0-1.")
    return links


def evenly(count: int, wanted: int) -> list[int]:
    """`wanted` evenly spaced indices below `count`; all of them if there are fewer."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


def _learned(sample: Sequence[WordPair], others: Sequence[WordPair]) -> list[Links]:
    """Word links for the sample, learned by IBM model 1 from it and from as many other pairs as fit."""
    texts, more = ([pair.texts for pair in pairs] for pairs in (sample, others))
    cells = sum(len(source) * len(target) for source, target in more)
    fitting = len(more) if cells <= MAX_LEARNING_CELLS else max(1, int(len(more) * MAX_LEARNING_CELLS / cells))
    return learned_links([*texts, *(more[i] for i in evenly(len(more), fitting))])[: len(texts)]


@dataclass(frozen=True)
class _Measurements:
    """Attention weights of every candidate head and reference links; the rows are the target words of all pairs.

    C candidate heads, R target words, W source words of the longest pair.
    """

    attention: Float[Tensor, "C R W"]
    sure: Bool[Tensor, "R W"]
    possible: Bool[Tensor, "R W"]
    spans: list[tuple[slice, int]]
    """For each sentence pair, its rows (target words) and its number of source words."""

    def error_rates(self, attention: Float[Tensor, "C R W"]) -> Float[Tensor, " C"]:
        """The alignment error rates when every target word is linked to the source word with the largest weight."""
        best = torch.from_numpy(first_largest(attention.numpy())).T
        hits = self.sure.gather(1, best).sum(0).double() + self.possible.gather(1, best).sum(0).double()
        return 1 - hits / (len(self.sure) + self.sure.sum())

    def error_rate(self, selected: Sequence[int]) -> float:
        """The alignment error rate of the mean over these heads."""
        return float(self.error_rates(self.attention[list(selected)].mean(0, keepdim=True))[0])


def _sample(pairs: Sequence[WordPair], heads: int) -> list[int]:
    """Indices of pairs to measure on: evenly spaced over those with words on both sides, as many as fit the limits."""
    usable = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    if not usable:
        raise InputError("No pair has words on both sides: check the sentences.")
    usable = [i for i in usable if len(pairs[i].source) <= MAX_SOURCE_WORDS] or usable
    widest = max(len(pairs[i].source) for i in usable)
    mean_rows = sum(len(pairs[i].target) for i in usable) / len(usable)
    fitting = max(1, int(MAX_MEASURED_FLOATS / (heads * mean_rows * widest)))
    return [usable[i] for i in evenly(len(usable), min(MAX_MEASURED_PAIRS, fitting))]


def _measure(
    model: Transformer, pairs: Sequence[WordPair], gold: Sequence[Links], heads: Sequence[AlignmentHead]
) -> _Measurements:
    """Attention weights and reference links of all pairs, from one forward pass."""
    first_rows = [0, *accumulate(len(pair.target) for pair in pairs)]
    rows, widest = first_rows[-1], max(len(pair.source) for pair in pairs)
    attention = torch.zeros(len(heads), rows, widest)
    sure, possible = torch.zeros(2, rows, widest, dtype=torch.bool)
    for number, weights in word_attention(model, pairs, heads):
        attention[:, first_rows[number] : first_rows[number + 1], : weights.shape[-1]] = torch.from_numpy(weights)
    for first, pair, links in zip(first_rows[:-1], pairs, gold, strict=True):
        for table, table_links in ((sure, links.sure), (possible, links.possible)):
            for source, target in table_links:
                if source >= len(pair.source) or target >= len(pair.target):
                    raise InputError(
                        f"The link {source}-{target} is out of range: the pair has {len(pair.source)} source and "
                        f"{len(pair.target)} target words, counted from 0."
                    )
                table[first + target, source] = True
    spans = [(slice(*ends), len(pair.source)) for ends, pair in zip(pairwise(first_rows), pairs, strict=True)]
    return _Measurements(attention, sure, possible, spans)


def _greedy_selection(measured: _Measurements, first: int) -> list[int]:
    """Starting from one head, repeatedly add the head that lowers the error rate most, until none does."""
    selected = [first]
    while len(selected) < MAX_HEADS:
        rates = measured.error_rates(measured.attention + measured.attention[selected].sum(0))
        rates[selected] = 1
        best = int(rates.argmin())
        if measured.error_rate([*selected, best]) > measured.error_rate(selected) - MIN_AER_GAIN:
            break
        selected.append(best)
    return selected


def _warn_above(measured: _Measurements, selected: Sequence[int]) -> float:
    """The lowest spread of attention above which fewer than half of the links were right; 1 if no spread is.

    Measured on target words with at least one possible link.
    """
    attention = measured.attention[list(selected)].mean(0)
    links: list[tuple[float, bool]] = []
    for rows, width in measured.spans:
        weights = shares(attention[rows, :width].numpy())
        possible = measured.possible[rows, :width]
        hits = possible.gather(1, torch.from_numpy(first_largest(weights))[:, None])[:, 0]
        words = zip(spread(weights).tolist(), hits.tolist(), possible.any(-1).tolist(), strict=True)
        links += [(word_spread, is_right) for word_spread, is_right, has_link in words if has_link]
    links.sort(reverse=True)
    right, warn_above = 0, 1.0
    for count, (_, is_right) in enumerate(links, start=1):
        right += is_right
        if right < count / 2:
            warn_above = links[count][0] if count < len(links) else 0.0
    return round(warn_above, 4)
