"""Log-probabilities of given targets: the same numbers that a search sums up."""

from collections.abc import Sequence

import torch

from glassformer.decoding.continuous_batching import batches_by_cost
from glassformer.decoding.hypothesis import Hypothesis, penalised
from glassformer.decoding.step_model import at_least_float32, padded
from glassformer.errors import InputError
from glassformer.model import Transformer

MAX_BATCH_POSITIONS = 4_000
"""Maximum of source and target positions per batch: each has logits as wide as the vocabulary."""


@torch.no_grad()
def score(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    length_penalty: float = 1.0,
    positions: int = MAX_BATCH_POSITIONS,
) -> list[Hypothesis]:
    """Score targets as hypotheses for their sources. Both end with the end of sentence; targets have no start token."""
    if len(sources) != len(targets):
        raise InputError(
            f"There are {len(targets)} targets for {len(sources)} sources. Expected one target per source."
        )
    model.eval()
    scored: list[Hypothesis | None] = [None] * len(sources)
    for batch in batches_by_cost([len(s) + len(t) for s, t in zip(sources, targets, strict=True)], positions):
        batch_log_ps = _log_probabilities(model, [sources[i] for i in batch], [targets[i] for i in batch])
        for i, log_ps in zip(batch, batch_log_ps, strict=True):
            scored[i] = Hypothesis(list(targets[i]), log_ps, penalised(sum(log_ps), len(log_ps), length_penalty))
    return [hypothesis for hypothesis in scored if hypothesis is not None]


def _log_probabilities(
    model: Transformer, sources: list[Sequence[int]], targets: list[Sequence[int]]
) -> list[list[float]]:
    config, device = model.config, model.output_projection.weight.device
    target_out = padded(targets, config.pad_id).to(device)
    target_in = padded([[config.bos_id, *target[:-1]] for target in targets], config.pad_id).to(device)
    logits = at_least_float32(model(padded(sources, config.pad_id).to(device), target_in))
    log_ps = logits.gather(-1, target_out[:, :, None])[:, :, 0] - logits.logsumexp(-1)
    return [row[: len(target)] for row, target in zip(log_ps.clamp(max=0).tolist(), targets, strict=True)]
