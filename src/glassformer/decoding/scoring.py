"""How likely a model finds given targets: the same numbers that a search adds up."""

from collections.abc import Sequence

import torch

from glassformer.decoding.continuous_batching import alike
from glassformer.decoding.hypothesis import Hypothesis, penalised
from glassformer.decoding.step_model import at_least_float32, padded
from glassformer.errors import InputError
from glassformer.model import Transformer

POSITIONS = 4_000
"""Source and target positions looked at at once: the logits of each are as wide as the vocabulary."""


@torch.no_grad()
def score(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    length_penalty: float = 1.0,
    positions: int = POSITIONS,
) -> list[Hypothesis]:
    """Each target as a hypothesis for its source. Both end with the end of sentence; no target carries the start."""
    if len(sources) != len(targets):
        raise InputError(f"There are {len(targets)} targets for {len(sources)} sources: one belongs to one.")
    model.eval()
    scored: list[Hypothesis | None] = [None] * len(sources)
    for batch in alike([len(s) + len(t) for s, t in zip(sources, targets, strict=True)], positions):
        log_ps = _log_probabilities(model, [sources[i] for i in batch], [targets[i] for i in batch])
        for i, own in zip(batch, log_ps, strict=True):
            scored[i] = Hypothesis(list(targets[i]), own, penalised(sum(own), len(own), length_penalty))
    return [hypothesis for hypothesis in scored if hypothesis is not None]


def _log_probabilities(
    model: Transformer, sources: list[Sequence[int]], targets: list[Sequence[int]]
) -> list[list[float]]:
    config, device = model.config, model.output_projection.weight.device
    wanted = padded(targets, config.pad_id).to(device)
    before = padded([[config.bos_id, *target[:-1]] for target in targets], config.pad_id).to(device)
    logits = at_least_float32(model(padded(sources, config.pad_id).to(device), before))
    log_ps = logits.gather(-1, wanted[:, :, None])[:, :, 0] - logits.logsumexp(-1)
    return [own[: len(target)] for own, target in zip(log_ps.clamp(max=0).tolist(), targets, strict=True)]
