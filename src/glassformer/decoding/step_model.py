"""Step models: next-token logits one decoding step at a time, given the source and the target so far.

`PlainStepModel` runs the PyTorch model and is the reference for all others; `UncachedStepModel` runs it without a KV
cache; `Ensemble` averages the probabilities of several.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.decoding.next_tokens import NextTokens, summarise_logits
from glassformer.errors import InputError
from glassformer.model import DecoderState, Transformer


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


class PlainStepModel:
    """Step model that runs the PyTorch model with its KV cache."""

    refills = False
    extra_positions = 0

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
        return summarise_logits(at_least_float32(logits), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        if list(rows) != list(range(len(self.state.source_visible))):
            device = self.state.source_visible.device
            self.state = self.state.reorder(torch.tensor(rows, dtype=torch.long, device=device))


class UncachedStepModel(PlainStepModel):
    """Step model without a KV cache: every step recomputes the whole target in PyTorch. Slow; checks the cached one."""

    def open(self, width: int) -> "UncachedStepSession":
        return UncachedStepSession(self.model)


class UncachedStepSession:
    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.device = model.output_projection.weight.device

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        self.sources = padded(sources, self.model.config.pad_id).to(self.device)
        self.targets = torch.empty(len(sources), 0, dtype=torch.long, device=self.device)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        self.targets = torch.cat((self.targets, torch.tensor(tokens, device=self.device)[:, None]), dim=1)
        return summarise_logits(at_least_float32(self.model(self.sources, self.targets)[:, -1]), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        self.sources, self.targets = self.sources[list(rows)], self.targets[list(rows)]


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
        session_logits = [session.step(tokens, 0, ()).logits for session in self.sessions]
        log_ps = torch.stack([logits.log_softmax(-1) for logits in session_logits])
        return summarise_logits(log_ps.logsumexp(0) - math.log(len(self.sessions)), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        for session in self.sessions:
            session.keep(rows)


def at_least_float32(logits: Tensor) -> Tensor:
    """Logits converted to float32 if in half precision, which suffices for products, but not for probabilities."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def padded(sentences: Sequence[Sequence[int]], pad: int) -> Tensor:
    """The ids of several sentences as one tensor, padded on the right."""
    return pad_sequence([torch.tensor(sentence) for sentence in sentences], batch_first=True, padding_value=pad)
