"""How far a model is from its targets, summed over tokens: whoever sums over batches and ranks divides, once."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.data.batch import Batch
from glassformer.model import Transformer

ROWS = 128  # positions projected to the vocabulary at once: few enough that their logits stay in the cache


def summed_loss(model: Transformer, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The label-smoothed cross-entropy in nats (section 5.4), summed over the batch's real target tokens.

    Smoothing ε asks for 1 - ε on the right token and shares ε evenly among all. Only real positions are projected to
    the vocabulary, which is the widest product of a small model.
    """
    hidden, wanted = _real_positions(model, batch)
    return _loss(model, hidden, wanted, smoothing)


def agreeing_loss(model: Transformer, batch: Batch, smoothing: float, agreement: float) -> Tensor:
    """R-Drop: the mean of two passes' `summed_loss`, each with its own dropout, and how far apart the passes are.

    That is the symmetric Kullback-Leibler divergence S = ½ Σ (p - q) (log p - log q) of what they say of each token,
    times half of `agreement`: half of what Liang et al. (2021) minimise, so that it compares with `summed_loss`.
    """
    hidden, wanted = _real_positions(model, batch.twice())
    pairs = hidden.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)  # a token's two rows beside each other
    return _loss(model, pairs, wanted[: len(wanted) // 2].repeat_interleave(2), smoothing, agreement) / 2


def _real_positions(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """What the decoder has at each position that counts, N D, and the token wanted there."""
    visible = model.visible(batch.source)
    hidden = model.decode(batch.target_in, model.encode(batch.source, visible), visible)
    return hidden[batch.real], batch.target_out[batch.real]


def _loss(model: Transformer, hidden: Tensor, wanted: Tensor, smoothing: float, agreement: float = 0.0) -> Tensor:
    # Where it pays: on a GPU the plain way is fast, and under autocast only torch knows which types to use.
    if hidden.is_cpu and not torch.is_autocast_enabled("cpu") and not model.logits.heard:
        projection = model.output_projection
        learning = torch.is_grad_enabled()
        loss: Tensor = ProjectedCrossEntropy.apply(
            model.scaled(hidden), projection.weight, projection.bias, wanted, smoothing, agreement, learning
        )
        return loss
    logits = model.project(hidden)
    loss = F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)
    if agreement:
        log_p, log_q = F.log_softmax(logits, -1).unflatten(0, (-1, 2)).unbind(1)
        loss = loss + agreement / 2 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
    return loss


class ProjectedCrossEntropy(torch.autograd.Function):
    """The cross-entropy of hidden Wᵀ + b, and its gradients in the same pass over the logits.

    With p = softmax(z), the loss is logsumexp(z) - (1 - ε) z[wanted] - ε mean(z), and its gradient by z is
    p - ε / V - (1 - ε) [wanted]: simple enough to be made while the logits are still in the cache.

    With an `agreement`, rows come in pairs, and that times S of each pair is added. With d = log p - log q, S has the
    gradient ½ (p (d - p · d) + p - q) by the first row's logits, and by the second's the same with p and q exchanged.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        wanted: Tensor,
        smoothing: float,
        agreement: float,
        learning: bool,
    ) -> Tensor:
        by_hidden, by_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        by_bias = None if bias is None else torch.zeros_like(bias)
        even = smoothing / len(weight)
        loss = hidden.new_zeros(())
        for start in range(0, len(hidden), ROWS):
            rows = slice(start, start + ROWS)
            right = wanted[rows, None]
            logits = F.linear(hidden[rows], weight, bias)
            at_right = logits.gather(1, right)
            total = torch.logsumexp(logits, 1, keepdim=True)
            loss += total.sum() - (1 - smoothing) * at_right.sum() - even * logits.sum()
            if agreement:
                apart, by_apart = _apart((logits - total).unflatten(0, (-1, 2)))
                loss += agreement * apart
            if learning:
                by_logits = logits.sub_(total).exp_().sub_(even)
                if agreement:
                    by_logits.add_(by_apart, alpha=agreement)
                by_logits.scatter_add_(1, right, by_logits.new_full(right.shape, smoothing - 1))
                torch.mm(by_logits, weight, out=by_hidden[rows])
                by_weight.addmm_(by_logits.t(), hidden[rows])
                if by_bias is not None:
                    by_bias += by_logits.sum(0)
        ctx.gradients = (by_hidden, by_weight, by_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *by_loss: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_weight, by_bias = ctx.gradients
        scale = by_loss[0]
        return by_hidden * scale, by_weight * scale, None if by_bias is None else by_bias * scale, *[None] * 4


def _apart(log_p: Tensor) -> tuple[Tensor, Tensor]:
    """S of pairs of rows, N 2 V, summed; and its gradient by their logits, a row for each."""
    p = log_p.exp()
    d = log_p - log_p.flip(1)
    by_logits = (p * (d - (p * d).sum(-1, keepdim=True)) + p - p.flip(1)) / 2
    return (p * d).sum() / 2, by_logits.flatten(0, 1)
