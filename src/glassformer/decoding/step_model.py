"""What a search asks: given the source and the target so far, how likely is each next token?

`PlainStepModel` asks the readable model, and is the measure for all others; `UncachedStepModel` asks it without a cache; `Ensemble` asks
several and takes the mean.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.decoding.next_tokens import NextTokens, examined
from glassformer.errors import InputError
from glassformer.model import DecoderState, Transformer


class StepSession(Protocol):
    """Sentences under way, a row for each growing hypothesis."""

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        """Read these sources and be ready for the start of their targets, a row each behind the rows under way.

        `limits`: the most tokens that each target may have.
        """

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        """What follows each row's newest token, and its `count` likeliest but none of `never`."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows in this order; a row may come twice, or not at all."""


class StepModel(Protocol):
    """A model that a search can ask."""

    bos: int
    eos: int
    pad: int
    vocab_size: int
    max_tokens: int | None
    """Tokens that a source or a target may have; None for any number."""
    refills: bool
    """Whether sentences may join while others are under way; else all begin together."""
    spare: int
    """Positions that a hypothesis takes memory for, at most, beside those of its target."""

    def open(self, width: int) -> StepSession:
        """Nothing under way yet; a sentence will have at most `width` rows."""


class PlainStepModel:
    """The model as it is written to be read."""

    refills = False
    spare = 0

    def __init__(self, model: Transformer) -> None:
        self.model = model.eval()
        config = model.config
        self.bos, self.eos, self.pad = config.bos_id, config.eos_id, config.pad_id
        self.vocab_size = config.vocab_size
        self.max_tokens = config.max_tokens

    def open(self, width: int) -> StepSession:
        return PlainStepSession(self.model)


class PlainStepSession:
    state: DecoderState

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        device = self.model.output_projection.weight.device
        self.state = self.model.start(padded(sources, self.model.config.pad_id).to(device))

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        device = self.state.source_visible.device
        logits = self.model.step(torch.tensor(tokens, device=device)[:, None], self.state)[:, -1]
        return examined(at_least_float32(logits), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        if list(rows) != list(range(len(self.state.source_visible))):
            device = self.state.source_visible.device
            self.state = self.state.reorder(torch.tensor(rows, dtype=torch.long, device=device))


class UncachedStepModel(PlainStepModel):
    """The model asked for the whole target again at every step: slow, and nothing to remember wrongly."""

    def open(self, width: int) -> "UncachedStepSession":
        return UncachedStepSession(self.model)


class UncachedStepSession:
    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.device = model.output_projection.weight.device

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        self.sources = padded(sources, self.model.config.pad_id).to(self.device)
        self.written = torch.empty(len(sources), 0, dtype=torch.long, device=self.device)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        self.written = torch.cat((self.written, torch.tensor(tokens, device=self.device)[:, None]), dim=1)
        return examined(at_least_float32(self.model(self.sources, self.written)[:, -1]), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        self.sources, self.written = self.sources[list(rows)], self.written[list(rows)]


class Ensemble:
    """Several models that share a vocabulary: the mean of their probabilities."""

    def __init__(self, step_models: Sequence[StepModel]) -> None:
        first, *others = step_models
        for other in others:
            for name in ("vocab_size", "bos", "eos", "pad"):
                ours, theirs = getattr(first, name), getattr(other, name)
                if ours != theirs:
                    raise InputError(
                        f"Models that answer together share one vocabulary; these have {name} = {ours} and {theirs}."
                    )
        self.step_models = step_models
        self.bos, self.eos, self.pad, self.vocab_size = first.bos, first.eos, first.pad, first.vocab_size
        self.max_tokens = min((p.max_tokens for p in step_models if p.max_tokens is not None), default=None)
        self.refills = all(p.refills for p in step_models)
        self.spare = max(p.spare for p in step_models)

    def open(self, width: int) -> "EnsembleStepSession":
        return EnsembleStepSession([step_model.open(width) for step_model in self.step_models])


class EnsembleStepSession:
    def __init__(self, sessions: Sequence[StepSession]) -> None:
        self.sessions = sessions

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        for session in self.sessions:
            session.join(sources, limits)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        said = [session.step(tokens, 0, ()).logits for session in self.sessions]
        log_ps = torch.stack([logits.log_softmax(-1) for logits in said])
        return examined(log_ps.logsumexp(0) - math.log(len(self.sessions)), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        for session in self.sessions:
            session.keep(rows)


def at_least_float32(logits: Tensor) -> Tensor:
    """Half precision is for products; probabilities want more."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def padded(sentences: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Ids of several sentences as one rectangle, filled up on the right."""
    return pad_sequence([torch.tensor(sentence) for sentence in sentences], batch_first=True, padding_value=pad)
