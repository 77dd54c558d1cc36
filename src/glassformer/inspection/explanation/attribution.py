"""Attribution between tokens of a trace: attention weights, value-weighted attention, attention rollout, edge removal.

Works on tokens, independent of words and their meaning.
"""

from collections.abc import Sequence

import torch

from glassformer.engine.torch_step_model import score
from glassformer.inspection.interventions.changes import Change, RemoveEdge, apply
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace import Trace
from glassformer.model import Transformer
from glassformer.model.dims import Float, Tensor


def attention_weights(trace: Trace, at: str, queries: Sequence[int], keys: Sequence[int]) -> Float[Tensor, " H"]:
    """Attention weight of each head from some tokens to others: summed over the keys, mean over the queries."""
    return trace[f"{at}.weights"].double()[:, list(queries)][:, :, list(keys)].sum(-1).mean(-1)


def weighted_values(trace: Trace, at: str, queries: Sequence[int], keys: Sequence[int]) -> float:
    """Value-weighted attention ‖Σ α v W_O‖, over the keys and all heads (Kobayashi et al., arXiv:2004.10102).

    The weight is one of two factors: a large weight on a small vector contributes little.
    """
    weights = trace[f"{at}.weights"].double()[:, list(queries)][:, :, list(keys)]
    values = trace[f"{at}.v"].double()[:, list(keys)]
    weight = trace.parameter(f"{at}.out_proj.weight")
    assert weight is not None, "a trace in memory has the parameters"
    w_o_by_head = weight.double().unflatten(1, (len(values), -1))
    contribution = torch.einsum("hqm,hmk,dhk->qd", weights, values, w_o_by_head)
    return float(contribution.norm(dim=-1).mean())


def rollout(trace: Trace) -> Float[Tensor, "S S"]:
    """Attention rollout (Abnar & Zuidema, arXiv:2005.00928): Π (A + 1) / 2 over encoder layers, A the mean over heads.

    Row i has the share of each source token in the memory at i, with equal weight for the residual and attention.
    """
    total = torch.eye(len(trace.source), dtype=torch.float64)
    for at in trace.attentions:
        if at.startswith("encoder."):
            weights = trace[f"{at}.weights"].double().mean(0)
            total = (weights + torch.eye(len(weights), dtype=torch.float64)) / 2 @ total
    return total


def edges(attentions: Sequence[str], queries: Sequence[int], keys: Sequence[int]) -> list[Change]:
    """Interventions that remove the attention edges from the queries to the keys, in all heads of these attentions."""
    return [RemoveEdge(at=at, query=query, key=key) for at in attentions for query in queries for key in keys]


def log_probabilities(
    model: Transformer, source: Sequence[int], target: Sequence[int], changes: Sequence[Change] = ()
) -> list[float]:
    """Log-probability of each token of a given target, in nats, with changes applied to the model."""
    changed = weight_sharing_copy(model)
    apply(changed, changes, {})
    return score(changed, [source], [target])[0].log_probabilities
