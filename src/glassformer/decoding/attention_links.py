"""Word links from attention weights: from tokens to words, and from each target word to a source word."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glassformer.decoding.alignment_choice import WARN_ABOVE, AlignmentHead, AlignmentHeads
from glassformer.decoding.hypothesis import Attention

TIE = 1e-6
"""Largest difference of attention weights, from 0 to 1, that rounding in float32 may have made."""
Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Integers = np.ndarray[Any, np.dtype[np.integer[Any]]]


class TokenSpan(Protocol):
    """The tokens of a word, from `first` up to and excluding `end`."""

    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True)
class Link:
    """A word link: a target word and the source word with the largest attention weight; indices from 0."""

    source: int
    target: int
    weight: float
    """The source word's share of the target word's attention."""
    spread: float
    """Normalised entropy of the target word's attention, from 0 (one source word) to 1 (uniform)."""
    uncertain: bool
    """Whether the spread is above the selection's `warn_above`."""


def word_links(
    attention: Attention,
    source: Sequence[TokenSpan],
    target: Sequence[TokenSpan],
    choice: AlignmentHeads,
    at_least: float = 0.0,
    both_ways: bool = False,
) -> list[Link]:
    """Link each target word to the source word with the largest weight in these heads' attention between tokens.

    `at_least` drops links with a smaller weight; `both_ways` keeps only links that are the largest for both words.
    """
    if not (source and target):
        return []
    weights = shares(by_words(attention, source, target, choice.heads).mean(0))
    found = links(weights, choice.warn_above)
    found = mutual(weights, found) if both_ways else found
    return [link for link in found if link.weight >= at_least]


def by_words(
    attention: Attention, source: Sequence[TokenSpan], target: Sequence[TokenSpan], heads: Sequence[AlignmentHead]
) -> Floats:
    """Attention between words, axes C T S: Σ over a source word's tokens, mean over a target word's.

    `attention`: the weights of these heads between tokens; a target word's are taken at the head's time step.
    """
    _, steps, width = attention.shape
    columns, source_words = _word_tokens(source)
    rows, target_words = _word_tokens(target)
    in_source_word = np.zeros((width, len(source)), attention.dtype)
    in_source_word[columns, source_words] = 1
    in_target_word = np.zeros((len(target), len(rows)), attention.dtype)
    in_target_word[target_words, range(len(rows))] = 1 / np.bincount(target_words)[target_words]
    to_words = attention @ in_source_word
    last = steps - 1  # without an end-of-sentence token there is no step after the last token
    result = [
        in_target_word @ weights[np.minimum(rows + (head.target_token == "input"), last)]
        for weights, head in zip(to_words, heads, strict=True)
    ]
    return np.stack(result)


def _word_tokens(side: Sequence[TokenSpan]) -> tuple[Integers, Integers]:
    """Positions of all tokens that belong to words, and the index of the word of each."""
    table = np.array([(i, number) for number, word in enumerate(side) for i in range(word.first, word.end)])
    return table[:, 0], table[:, 1]


def links(weights: Floats, warn_above: float = WARN_ABOVE) -> list[Link]:
    """Links from attention shares, axes T S: each target word to the source word with the largest share.

    Of ties, the first.
    """
    if not weights.size:
        return []
    columns = zip(first_largest(weights).tolist(), weights.max(-1).tolist(), spread(weights).tolist(), strict=True)
    return [
        Link(source, target, weight, word_spread, word_spread > warn_above)
        for target, (source, weight, word_spread) in enumerate(columns)
    ]


def first_largest(weights: Floats) -> Integers:
    """Index of the largest weight of each row (the last axis); of weights that differ only by rounding, the first.

    So a link does not depend on the order of summation.
    """
    return (weights >= weights.max(-1, keepdims=True) - TIE).argmax(-1)


def mutual(weights: Floats, found: Sequence[Link]) -> list[Link]:
    """The links that hold in both directions: no other target word has a larger share for the source word."""
    best_targets = first_largest(weights.T).tolist() if weights.size else []
    return [link for link in found if best_targets[link.source] == link.target]


def shares(attention: Floats) -> Floats:
    """Attention per target word normalised to 1; weight on tokens outside words (tags, end) is spread over all words.

    Such weight says nothing about any word: a head without a match attends to the end of sentence.
    """
    outside_words = (1 - attention.sum(-1, keepdims=True)).clip(min=0)
    return attention + outside_words / max(1, attention.shape[-1])


def spread(weights: Floats) -> Floats:
    """-Σ w log w / log S: 0 if one word has all the weight, 1 if the weights are uniform."""
    entropy = -(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(-1)
    return (entropy / math.log(max(2, weights.shape[-1]))).clip(0, 1)
