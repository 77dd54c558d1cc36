"""Step models that run the PyTorch model: the reference for all others, and what runs on devices and without C.

They run where the model's weights are.
"""

import threading
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from glassformer.decoding.batch_limits import BatchLimits
from glassformer.decoding.hypothesis import Attention, Head, Hypothesis
from glassformer.decoding.next_tokens import NextTokens
from glassformer.decoding.scoring import MAX_BATCH_POSITIONS, Ids, score_targets
from glassformer.decoding.step_model import StepSession, check_ids, check_source_ids, padded
from glassformer.engine.tensor_next_tokens import at_least_float32, next_tokens
from glassformer.model import DecoderState, Transformer

MAX_RESERVED_POSITIONS = 1_024
"""Positions of a target that a KV cache has memory for from the start; it grows for longer targets, which are rare."""


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

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return device_of(self.model)

    def open(self, width: int) -> StepSession:
        return PlainStepSession(self.model)

    @torch.no_grad()
    def log_probabilities(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probability of each token of given targets, in one padded batch."""
        target_out, target_in = self._both_sides(targets)
        logits = at_least_float32(self.model(self._sources(sources), target_in))
        log_ps = (logits.gather(-1, target_out[:, :, None])[:, :, 0] - logits.logsumexp(-1)).clamp(max=0)
        return [row[: len(target)] for row, target in zip(log_ps.cpu().tolist(), targets, strict=True)]

    @torch.no_grad()
    def attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], heads: Sequence[Head]
    ) -> list[Attention]:
        """The weights of cross-attention heads for given targets, from the taps of one padded batch."""
        weights: dict[int, Tensor] = {}
        thread = threading.get_ident()

        def keep(layer: int, x: Tensor) -> None:
            if threading.get_ident() == thread:  # another thread may run the model, too
                weights[layer] = at_least_float32(x)

        taps = {layer: self.model.decoder.layers[layer].cross_attention.weights for layer, _ in heads}
        listeners = {layer: partial(keep, layer) for layer in taps}
        for layer, tap in taps.items():
            tap.listeners.append(listeners[layer])
        try:
            source = self._sources(sources)
            visible = self.model.visible(source)
            self.model.decode(self._both_sides(targets)[1], self.model.encode(source, visible), visible)
        finally:
            for layer, tap in taps.items():
                tap.listeners.remove(listeners[layer])
        chosen = torch.stack([weights[layer][:, head] for layer, head in heads], dim=1).cpu().numpy()
        return [
            chosen[row, :, : len(target), : len(source)]
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def _sources(self, sources: Sequence[Sequence[int]]) -> Tensor:
        check_source_ids(sources, self.model.config.source_vocab_size)
        return padded_on(self.device, sources, self.pad)

    def _both_sides(self, targets: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """What the decoder is to predict, and what it reads."""
        check_ids(targets, self.vocab_size)
        before = [[self.bos, *target[:-1]] for target in targets]
        return padded_on(self.device, targets, self.pad), padded_on(self.device, before, self.pad)


class PlainStepSession:
    state: DecoderState

    def __init__(self, model: Transformer) -> None:
        self.model, self.device = model, device_of(model)

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        check_source_ids(sources, self.model.config.source_vocab_size)
        capacity = min(max(limits), MAX_RESERVED_POSITIONS)
        self.state = self.model.start(padded_on(self.device, sources, self.model.config.pad_id), capacity=capacity)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        newest = torch.tensor(tokens, device=self.device)[:, None]
        return next_tokens(self.model.step(newest, self.state)[:, -1], count, never)

    def keep(self, rows: Sequence[int]) -> None:
        if list(rows) != list(range(len(self.state.source_visible))):
            self.state = self.state.reorder(torch.tensor(rows, dtype=torch.long, device=self.device))


class UncachedStepModel(PlainStepModel):
    """Step model without a KV cache: every step recomputes the whole target in PyTorch. Slow; checks the cached one."""

    def open(self, width: int) -> "UncachedStepSession":
        return UncachedStepSession(self.model)


class UncachedStepSession:
    def __init__(self, model: Transformer) -> None:
        self.model, self.device = model, device_of(model)

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        self.sources = padded_on(self.device, sources, self.model.config.pad_id)
        self.targets = torch.empty(len(sources), 0, dtype=torch.long, device=self.device)

    @torch.no_grad()
    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        self.targets = torch.cat((self.targets, torch.tensor(tokens, device=self.device)[:, None]), dim=1)
        return next_tokens(self.model(self.sources, self.targets)[:, -1], count, never)

    def keep(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        self.sources, self.targets = self.sources[index], self.targets[index]


def device_of(model: Transformer) -> torch.device:
    """Where a model's weights are."""
    return model.output_projection.weight.device


def padded_on(device: torch.device, sentences: Sequence[Sequence[int]], pad: int) -> Tensor:
    """The ids of several sentences as one tensor on a device, padded on the right."""
    return torch.from_numpy(padded(sentences, pad)).to(device)


def score(
    model: Transformer, sources: Ids, targets: Ids, length_penalty: float = 1.0, positions: int = MAX_BATCH_POSITIONS
) -> list[Hypothesis]:
    """Score targets with the PyTorch model."""
    return score_targets(PlainStepModel(model), sources, targets, length_penalty, BatchLimits(positions=positions))
