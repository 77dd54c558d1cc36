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
    visible = model.visible(batch.source)
    hidden = model.decode(batch.target_in, model.encode(batch.source, visible), visible)
    real = batch.real
    hidden, wanted = hidden[real], batch.target_out[real]
    # Where it pays: on a GPU the plain way is fast, and under autocast only torch knows which types to use.
    if hidden.is_cpu and not torch.is_autocast_enabled("cpu") and not model.logits.heard:
        projection = model.output_projection
        loss: Tensor = ProjectedCrossEntropy.apply(
            model.scaled(hidden), projection.weight, projection.bias, wanted, smoothing, torch.is_grad_enabled()
        )
        return loss
    return F.cross_entropy(model.project(hidden), wanted, reduction="sum", label_smoothing=smoothing)


class ProjectedCrossEntropy(torch.autograd.Function):
    """The cross-entropy of hidden Wᵀ + b, and its gradients in the same pass over the logits.

    With p = softmax(z), the loss is logsumexp(z) - (1 - ε) z[wanted] - ε mean(z), and its gradient by z is
    p - ε / V - (1 - ε) [wanted]: simple enough to be made while the logits are still in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        wanted: Tensor,
        smoothing: float,
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
            if learning:
                by_logits = logits.sub_(total).exp_().sub_(even)
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
        return by_hidden * scale, by_weight * scale, None if by_bias is None else by_bias * scale, None, None, None
