"""Step models: next-token logits one decoding step at a time, given the source and the target so far.

`Ensemble` averages the probabilities of several; the package `engine` has the models themselves, in C and in PyTorch.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.decoding.next_tokens import NextTokens
from glassformer.errors import InputError


class StepSession(Protocol):
    """The decoding state of a batch, one row per unfinished hypothesis."""

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        """Encode these sources and append one row per source, ready for the start token of its target.

        `limits`: the maximum number of tokens of each target.
        """

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        """Append one token to each row and predict the next, with the `count` most likely tokens excluding `never`."""

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows in this order; a row may occur several times, or not at all."""


class StepModel(Protocol):
    """A model that gives a search next-token logits, one decoding step at a time."""

    bos: int
    eos: int
    pad: int
    vocab_size: int
    max_tokens: int | None
    """Maximum number of tokens in a source or a target; None for no limit."""
    refills: bool
    """Whether sentences may join a running batch (continuous batching); otherwise all start together."""
    extra_positions: int
    """Maximum number of positions that a hypothesis takes memory for beyond those of its target."""

    def open(self, width: int) -> StepSession:
        """Open an empty decoding session; a sentence will have at most `width` rows (hypotheses)."""


class Ensemble:
    """Step model of several models that share a vocabulary: the mean of their probabilities."""

    def __init__(self, step_models: Sequence[StepModel]) -> None:
        first, *others = step_models
        for other in others:
            for name in ("vocab_size", "bos", "eos", "pad"):
                a, b = getattr(first, name), getattr(other, name)
                if a != b:
                    raise InputError(
                        f"The models of an ensemble must share one vocabulary; these have {name} = {a} and {b}."
                    )
        self.step_models = step_models
        self.bos, self.eos, self.pad, self.vocab_size = first.bos, first.eos, first.pad, first.vocab_size
        self.max_tokens = min((p.max_tokens for p in step_models if p.max_tokens is not None), default=None)
        self.refills = all(p.refills for p in step_models)
        self.extra_positions = max(p.extra_positions for p in step_models)

    def open(self, width: int) -> "EnsembleStepSession":
        return EnsembleStepSession([step_model.open(width) for step_model in self.step_models])


class EnsembleStepSession:
    def __init__(self, sessions: Sequence[StepSession]) -> None:
        self.sessions = sessions

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        for session in self.sessions:
            session.join(sources, limits)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        predictions = [session.step(tokens, 0, ()) for session in self.sessions]
        return predictions[0].averaged(predictions[1:], count, never)

    def keep(self, rows: Sequence[int]) -> None:
        for session in self.sessions:
            session.keep(rows)


def check_source_ids(sources: Sequence[Sequence[int]], vocab_size: int) -> None:
    """Check that sources are not empty and have only token ids of the model."""
    if not sources or not all(sources):
        raise InputError("A source is empty: it must have at least the end-of-sentence token.")
    check_ids(sources, vocab_size)


def check_ids(sentences: Sequence[Sequence[int]], vocab_size: int) -> None:
    """Check token ids before they reach a device: on a GPU an unknown one ends the process's use of it."""
    lowest, highest = min(map(min, sentences)), max(map(max, sentences))
    if lowest < 0 or highest >= vocab_size:
        raise InputError(
            f"Token ids must be from 0 to {vocab_size - 1}; these go from {lowest} to {highest}. Encode the text with "
            "this model's tokenizer."
        )


def padded(sentences: Sequence[Sequence[int]], pad: int) -> NDArray[np.int64]:
    """The ids of several sentences as one array, padded on the right."""
    ids = np.full((len(sentences), max(map(len, sentences), default=0)), pad, np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids
