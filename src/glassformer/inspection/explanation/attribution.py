"""How much one token has of others: looks, weighted values, rollout, and what is lost when an edge is cut.

Numbers about tokens of one trace. Knows nothing of words or of what they mean.
"""

from collections.abc import Sequence

import torch

from glassformer.decoding import score
from glassformer.inspection.interventions.changes import Change, CutEdge, apply
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace import Trace
from glassformer.model import Transformer
from glassformer.model.dims import Float, Tensor


def attention_weights(trace: Trace, at: str, queries: Sequence[int], keys: Sequence[int]) -> Float[Tensor, " H"]:
    """Each head's attention from some tokens to others: the keys' weights summed, the mean over the queries."""
    return trace[f"{at}.weights"].double()[:, list(queries)][:, :, list(keys)].sum(-1).mean(-1)


def weighted_values(trace: Trace, at: str, queries: Sequence[int], keys: Sequence[int]) -> float:
    """‖Σ α v W_O‖ over the keys and all heads: what these keys bring (Kobayashi et al., arXiv:2004.10102).

    A weight is one of two factors: a large one on a small vector brings little.
    """
    weights = trace[f"{at}.weights"].double()[:, list(queries)][:, :, list(keys)]
    values = trace[f"{at}.v"].double()[:, list(keys)]
    weight = trace.parameter(f"{at}.out_proj.weight")
    assert weight is not None, "a trace that was just made has the weights"
    own_columns = weight.double().unflatten(1, (len(values), -1))
    brought = torch.einsum("hqm,hmk,dhk->qd", weights, values, own_columns)
    return float(brought.norm(dim=-1).mean())


def rollout(trace: Trace) -> Float[Tensor, "S S"]:
    """Attention rollout: Π (A + 1) / 2 over the encoder's layers, A its heads' mean (Abnar & Zuidema, 2005.00928).

    Row i says of which source tokens the memory at i is made, if the way around counts as much as attention.
    """
    total = torch.eye(len(trace.source), dtype=torch.float64)
    for at in trace.attentions:
        if at.startswith("encoder."):
            weights = trace[f"{at}.weights"].double().mean(0)
            total = (weights + torch.eye(len(weights), dtype=torch.float64)) / 2 @ total
    return total


def edges(attentions: Sequence[str], queries: Sequence[int], keys: Sequence[int]) -> list[Change]:
    """The cuts after which no head of these attentions looks from these tokens to those."""
    return [CutEdge(at=at, query=query, key=key) for at in attentions for query in queries for key in keys]


def log_probabilities(
    model: Transformer, source: Sequence[int], target: Sequence[int], changes: Sequence[Change] = ()
) -> list[float]:
    """Of each token of a given target, in nats, under changes to the model's pass."""
    mine = weight_sharing_copy(model)
    apply(mine, changes, {})
    return score(mine, [source], [target])[0].log_probabilities
