"""Vocabulary shortlist: from the tokens of a source to the target tokens that its translation may use.

Also a step model with shortlists for any other step model: the readable reference of the C engine's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from glassformer.decoding.next_tokens import NextTokens
from glassformer.decoding.rules import Request
from glassformer.decoding.step_model import StepModel, StepSession
from glassformer.errors import InputError
from glassformer.settings import Settings

TokenList = NDArray[np.int32]
"""Target tokens, sorted, without duplicates."""
MAX_BLEU_COST = 0.3
"""Maximum measured cost in BLEU of a shortlist that is used by default."""


class ShortlistMeasurement(Settings):
    """What a shortlist costs and gains, measured on a sample of sentences."""

    sentences: Annotated[int, Field(ge=1)]
    """Number of sentences in the sample."""
    bleu: float
    """BLEU of the translations with the shortlist; 0 to 100."""
    unrestricted_bleu: float
    """BLEU of the translations with all tokens; 100 without references, where these are the references."""
    has_references: bool
    """Whether the sample has reference translations; otherwise every changed word counts as a loss."""
    identical: Annotated[int, Field(ge=0)]
    """Number of sentences whose translation is the same with and without the shortlist."""
    speedup: Annotated[float, Field(gt=0)]
    """Sentences per second with the shortlist, divided by those without."""
    tokens: Annotated[float, Field(gt=0)]
    """Mean number of tokens in a sentence's list."""

    @property
    def cost(self) -> float:
        """BLEU lost by the shortlist."""
        return self.unrestricted_bleu - self.bleu

    @property
    def is_cheap(self) -> bool:
        """Whether the shortlist costs so little that it is used by default."""
        return self.cost <= MAX_BLEU_COST


@dataclass(frozen=True, eq=False)
class Shortlist:
    """For each source token, the target tokens that it may be translated by."""

    always: TokenList
    """Target tokens in every list."""
    offsets: NDArray[np.int32]
    """For source token i, its target tokens are `targets[offsets[i] : offsets[i + 1]]`."""
    targets: NDArray[np.int32]
    vocab_size: int
    """Number of target tokens of the model."""
    copies_source: bool
    """Whether the source tokens themselves are in a sentence's list: for a vocabulary shared by both sides."""
    measurement: ShortlistMeasurement | None = None
    """What it costs; None if it was not measured."""

    def checked(self, source_vocab_size: int) -> "Shortlist":
        """Check that it fits a model with this source vocabulary; returns it with an offset for every source token."""
        problem = self._problem(source_vocab_size)
        if problem:
            raise InputError(f"The shortlist does not fit the model: {problem}.")
        missing = source_vocab_size + 1 - len(self.offsets)
        return replace(self, offsets=np.pad(self.offsets, (0, missing), "edge")) if missing else self

    def tokens(self, request: Request, eos: int) -> TokenList:
        """The tokens that the translation of a request may use, with all forced ones and the end of sentence."""
        source = np.asarray(request.source, dtype=np.int32)
        forced = [eos, *request.prefix, *(token for phrase in request.phrases for token in phrase)]
        first, sizes = self.offsets[source], self.offsets[source + 1] - self.offsets[source]
        # Places in `targets`: first[i], first[i] + 1, ..., for each of `sizes[i]`.
        places = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        used = np.zeros(self.vocab_size, dtype=bool)  # faster than sorting them
        for tokens in (self.always, forced, self.targets[places], source if self.copies_source else []):
            used[tokens] = True
        return np.flatnonzero(used).astype(np.int32)

    def _problem(self, source_vocab_size: int) -> str | None:
        """Why a model with these vocabularies cannot use it; None if it can."""
        offsets, vocab_size = self.offsets, self.vocab_size
        if not 2 <= len(offsets) <= source_vocab_size + 1:
            return f"it has lists for {len(offsets) - 1:,} source tokens, and the model has {source_vocab_size:,}"
        if offsets[0] != 0 or offsets[-1] != len(self.targets) or (np.diff(offsets) < 0).any():
            return f"its offsets should ascend from 0 to {len(self.targets):,}, the number of its target tokens"
        for tokens in (self.always, self.targets):
            if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
                return f"its target ids are {tokens.min()} to {tokens.max()}, the model's are 0 to {vocab_size - 1}"
        if self.copies_source and source_vocab_size > vocab_size:
            return (
                f"it copies source tokens, which needs one vocabulary for both sides, and the model has "
                f"{source_vocab_size:,} source and {vocab_size:,} target tokens"
            )
        return None


@runtime_checkable
class RestrictedSession(Protocol):
    """A decoding session in which every sentence may use the tokens of its own list only."""

    def restrict(self, lists: Sequence[TokenList]) -> None:
        """Restrict the sentences that joined last, one list each. All other tokens have probability 0."""


@runtime_checkable
class HasShortlist(Protocol):
    """A step model whose sessions are `RestrictedSession`s if it has a shortlist."""

    shortlist: Shortlist | None


class MaskedStepModel:
    """Step model with a shortlist: another step model's logits, with those outside each sentence's list set to -inf."""

    def __init__(self, step_model: StepModel, shortlist: Shortlist) -> None:
        self.step_model, self.shortlist = step_model, shortlist
        self.bos, self.eos, self.pad = step_model.bos, step_model.eos, step_model.pad
        self.vocab_size, self.max_tokens = step_model.vocab_size, step_model.max_tokens
        self.refills, self.extra_positions = step_model.refills, step_model.extra_positions

    def open(self, width: int) -> "MaskedSession":
        return MaskedSession(self.step_model.open(width))


class MaskedSession:
    def __init__(self, session: StepSession) -> None:
        self.session = session
        self.lists: list[TokenList] = []
        """The tokens that each row may use."""

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        self.session.join(sources, limits)

    def restrict(self, lists: Sequence[TokenList]) -> None:
        self.lists += lists

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        return self.session.step(tokens, 0, ()).within(self.lists, count, never)

    def keep(self, rows: Sequence[int]) -> None:
        self.session.keep(rows)
        self.lists = [self.lists[row] for row in rows]
