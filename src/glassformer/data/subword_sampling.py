"""Subword sampling: tokens split at random into shorter tokens, differently in every epoch.

A word is then seen in several segmentations (subword regularisation: Kudo, 2018; splitting of tokens as in StochasTok:
Sims et al., 2025). It works on token ids, so the token store stays as it is, and is a pure function of seed, epoch and
sentence, so a resumed run continues with exactly the tokens it would have had.
"""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glassformer.data.tokenizer import SIDES, Side, Tokenizer

Ids = NDArray[np.int64]
Split = tuple[int, ...]


class TokenSplits:
    """The ways to split each token of a vocabulary: a shorter token that it starts with, and the rest in few tokens."""

    def __init__(self, tokenizer: Tokenizer, side: Side) -> None:
        ids = range(tokenizer.vocab_size(side))
        pieces = tokenizer.pieces(ids, side)
        vocabulary = {pieces[i]: i for i in ids if tokenizer.is_text(i, side)}
        self.ways: list[list[Split]] = [
            _splits(piece, vocabulary) if vocabulary.get(piece) == i else [] for i, piece in enumerate(pieces)
        ]

    def sample(self, tokens: Sequence[int], probability: float, random: "np.random.Generator") -> list[int]:
        """The tokens, each split with this probability, and so are the parts of those that were."""
        sampled: list[int] = []
        for token, draw in zip(tokens, random.random(len(tokens)) / probability, strict=True):
            if draw < 1 and (ways := self.ways[token]):
                sampled += self.sample(ways[int(draw * len(ways))], probability, random)
            else:
                sampled.append(token)
        return sampled


def _splits(piece: str, vocabulary: Mapping[str, int]) -> list[Split]:
    """All shorter tokens at the start of a piece, each with the fewest tokens that make up the rest."""
    rests: dict[int, Split] = {len(piece): ()}  # position -> the fewest tokens from there on
    for start in range(len(piece) - 1, 0, -1):
        tokens = [
            (vocabulary[piece[start:end]], *rests[end])
            for end in range(len(piece), start, -1)
            if end in rests and piece[start:end] in vocabulary
        ]
        if tokens:
            rests[start] = min(tokens, key=len)
    starts = [(vocabulary.get(piece[:end]), end) for end in range(1, len(piece))]
    return [(token, *rests[end]) for token, end in starts if token is not None and end in rests]


class SubwordSampler:
    """Samples the segmentation of sentence pairs. A side of more than `max_tokens` tokens stays as it was."""

    def __init__(self, splits: tuple[TokenSplits, TokenSplits], probability: float, seed: int, max_tokens: int) -> None:
        self.splits, self.probability, self.seed, self.max_tokens = splits, probability, seed, max_tokens

    @classmethod
    def of(cls, tokenizer: Tokenizer, probability: float, seed: int, max_tokens: int) -> Self:
        """The sampler for a tokenizer's vocabularies."""
        source, target = (TokenSplits(tokenizer, side) for side in SIDES)
        return cls((source, target), probability, seed, max_tokens)

    def sample(self, pair: tuple[Ids, Ids], index: int, epoch: int) -> tuple[Ids, Ids]:
        """The pair of this index, as it is in this epoch."""
        random = np.random.Generator(np.random.PCG64([self.seed, epoch, index]))
        source, target = (self._side(splits, ids, random) for splits, ids in zip(self.splits, pair, strict=True))
        return source, target

    def _side(self, splits: TokenSplits, ids: Ids, random: "np.random.Generator") -> Ids:
        sampled = splits.sample(ids.tolist(), self.probability, random)
        return np.array(sampled, np.int64) if len(sampled) <= self.max_tokens else ids
