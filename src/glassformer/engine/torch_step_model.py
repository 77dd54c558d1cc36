"""Step models that run the PyTorch model: the reference for all others, and their replacement without compiled C."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.decoding.batch_limits import BatchLimits
from glassformer.decoding.hypothesis import Attention, Head, Hypothesis
from glassformer.decoding.next_tokens import NextTokens, summarise_logits
from glassformer.decoding.scoring import MAX_BATCH_POSITIONS, Ids, score_targets
from glassformer.decoding.step_model import StepSession, check_source_ids, padded
from glassformer.model import DecoderState, Transformer


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

    @torch.no_grad()
    def log_probabilities(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probability of each token of given targets, in one padded batch."""
        target_out, target_in = self._both_sides(targets)
        logits = at_least_float32(self.model(self._padded(sources), target_in))
        log_ps = logits.gather(-1, target_out[:, :, None])[:, :, 0] - logits.logsumexp(-1)
        return [row[: len(target)] for row, target in zip(log_ps.clamp(max=0).tolist(), targets, strict=True)]

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
            source = self._padded(sources)
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

    def _padded(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        ids = torch.from_numpy(padded(sentences, self.model.config.pad_id))
        return ids.to(self.model.output_projection.weight.device)

    def _both_sides(self, targets: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """What the decoder is to predict, and what it reads."""
        return self._padded(targets), self._padded([[self.bos, *target[:-1]] for target in targets])


class PlainStepSession:
    state: DecoderState

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        device = self.model.output_projection.weight.device
        check_source_ids(sources, self.model.config.source_vocab_size)
        self.state = self.model.start(torch.from_numpy(padded(sources, self.model.config.pad_id)).to(device))

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        device = self.state.source_visible.device
        logits = self.model.step(torch.tensor(tokens, device=device)[:, None], self.state)[:, -1]
        return summarise_logits(as_array(logits), count, never)

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
        self.sources = torch.from_numpy(padded(sources, self.model.config.pad_id)).to(self.device)
        self.targets = torch.empty(len(sources), 0, dtype=torch.long, device=self.device)

    @torch.no_grad()
    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        self.targets = torch.cat((self.targets, torch.tensor(tokens, device=self.device)[:, None]), dim=1)
        return summarise_logits(as_array(self.model(self.sources, self.targets)[:, -1]), count, never)

    def keep(self, rows: Sequence[int]) -> None:
        self.sources, self.targets = self.sources[list(rows)], self.targets[list(rows)]


def as_array(logits: Tensor) -> NDArray[Any]:
    """Logits as an array, in float32 if they are in half precision, which suffices for products, not probabilities."""
    return at_least_float32(logits).cpu().numpy()


def at_least_float32(logits: Tensor) -> Tensor:
    """Logits converted to float32 if in half precision, which suffices for products, but not for probabilities."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def score(
    model: Transformer, sources: Ids, targets: Ids, length_penalty: float = 1.0, positions: int = MAX_BATCH_POSITIONS
) -> list[Hypothesis]:
    """Score targets with the PyTorch model."""
    return score_targets(PlainStepModel(model), sources, targets, length_penalty, BatchLimits(positions=positions))
