"""How far a model is from its targets, summed over tokens: whoever sums over batches and ranks divides, once."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.data.padded_batch import Batch
from glassformer.model import Transformer
from glassformer.training.mixed_precision import products_in, rounded_type

ROWS = 128  # positions projected to the vocabulary at once: few enough that their logits stay in the cache


class TrainingLoss(nn.Module):
    """The loss as a module, because data-parallel training wraps modules. `products`: what products are made in."""

    def __init__(
        self, model: Transformer, smoothing: float, products: torch.dtype | None = None, agreement: float = 0.0
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.products = products
        self.agreement = agreement

    def forward(self, batch: Batch) -> Tensor:
        if self.agreement:
            return agreeing_loss(self.model, batch, self.smoothing, self.agreement, self.products)
        return summed_loss(self.model, batch, self.smoothing, self.products)


def summed_loss(
    model: Transformer, batch: Batch, smoothing: float = 0.0, products: torch.dtype | None = None
) -> Tensor:
    """The label-smoothed cross-entropy in nats (section 5.4), summed over the batch's real target tokens.

    Smoothing ε asks for 1 - ε on the right token and shares ε evenly among all. Only real positions are projected to
    the vocabulary, which is the widest product of a small model. `products`: a shorter type to multiply in.
    """
    with products_in(products, batch.source.device):
        hidden, wanted = _real_positions(model, batch)
        return _loss(model, hidden, wanted, smoothing, 0.0, products)


def agreeing_loss(
    model: Transformer, batch: Batch, smoothing: float, agreement: float, products: torch.dtype | None = None
) -> Tensor:
    """R-Drop: the mean of two passes' `summed_loss`, each with its own dropout, and how far apart the passes are.

    That is the symmetric Kullback-Leibler divergence S = ½ Σ (p - q) (log p - log q) of what they say of each token,
    times half of `agreement`: half of what Liang et al. (2021) minimise, so that it compares with `summed_loss`.
    """
    with products_in(products, batch.source.device):
        hidden, wanted = _real_positions(model, batch.twice())
        pairs = hidden.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)  # a token's two rows beside each other
        return _loss(model, pairs, wanted[: len(wanted) // 2].repeat_interleave(2), smoothing, agreement, products) / 2


def _real_positions(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """What the decoder has at each position that counts, N D, and the token wanted there."""
    visible = model.visible(batch.source)
    hidden = model.decode(batch.target_in, model.encode(batch.source, visible), visible)
    return hidden[batch.real], batch.target_out[batch.real]


def _loss(
    model: Transformer,
    hidden: Tensor,
    wanted: Tensor,
    smoothing: float,
    agreement: float = 0.0,
    products: torch.dtype | None = None,
) -> Tensor:
    if hidden.is_cpu and not model.logits.heard:  # where it pays: on a GPU the plain way is fast
        projection = model.output_projection
        learning = torch.is_grad_enabled()
        loss: Tensor = ProjectedCrossEntropy.apply(
            model.scaled(hidden), projection.weight, projection.bias, wanted, smoothing, agreement, learning, products
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
        products: torch.dtype | None,
    ) -> Tensor:
        by_hidden, by_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        by_bias = None if bias is None else torch.zeros_like(bias)
        even = smoothing / len(weight)
        full, short = hidden.dtype, rounded_type(hidden, products)
        rounded, short_bias = weight.to(short), None if bias is None else bias.to(short)
        loss = hidden.new_zeros(())
        for start in range(0, len(hidden), ROWS):
            rows = slice(start, start + ROWS)
            right = wanted[rows, None]
            x = hidden[rows].to(short)
            log_p = torch.log_softmax(F.linear(x, rounded, short_bias), 1, dtype=full)
            loss -= (1 - smoothing) * log_p.gather(1, right).sum() + even * log_p.sum()
            if agreement:
                apart, by_logits = _apart(log_p.unflatten(0, (-1, 2)), agreement / 2)
                loss += apart
            elif learning:
                by_logits = log_p.exp_()
            if learning:
                by_logits.sub_(even).scatter_add_(1, right, by_logits.new_full(right.shape, smoothing - 1))
                if by_bias is not None:
                    by_bias += by_logits.sum(0)
                by_logits = by_logits.to(short)
                by_hidden[rows] = torch.mm(by_logits, rounded)
                if short == full:  # in one pass over the matrix; a sum of another type than its products takes two
                    by_weight.addmm_(by_logits.t(), x)
                else:
                    by_weight += torch.mm(by_logits.t(), x)
        ctx.gradients = (by_hidden, by_weight, by_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *by_loss: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_weight, by_bias = ctx.gradients
        scale = by_loss[0]
        return by_hidden * scale, by_weight * scale, None if by_bias is None else by_bias * scale, *[None] * 5


def _apart(log_p: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """2 w S of pairs of rows, N 2 V, summed; and p plus its gradient by their logits, a row for each.

    With d = log p - log q that is p (1 + w + w (d - p · d)) - w q, and the same with p and q exchanged. Few passes over
    the vocabulary, and in place, since they cost as much as the products. Takes `log_p` as its own.
    """
    d = log_p[:, 0] - log_p[:, 1]
    p = log_p.exp_()
    dots = torch.bmm(p, d[:, :, None])
    by_logits = torch.empty_like(p)
    for one, other, sign in ((0, 1, weight), (1, 0, -weight)):
        torch.mul(p[:, other], -weight, out=by_logits[:, one])
        by_logits[:, one].addcmul_(p[:, one], torch.add(1 + weight - sign * dots[:, one], d, alpha=sign))
    return weight * (dots[:, 0] - dots[:, 1]).sum(), by_logits.flatten(0, 1)
