"""Training losses summed over tokens: label-smoothed cross-entropy, and R-Drop.

They are sums so that the caller can add up batches and ranks and divide once.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.data.padded_batch import Batch
from glassformer.model import Transformer
from glassformer.training.mixed_precision import matmul_dtype_for, matmul_in

CHUNK_POSITIONS = 128  # projected to the vocabulary at once: few enough that their logits stay in the cache


class TrainingLoss(nn.Module):
    """Training loss as a module, because data-parallel training wraps modules. `matmul_dtype`: of matrix products."""

    def __init__(
        self, model: Transformer, smoothing: float, matmul_dtype: torch.dtype | None = None, r_drop: float = 0.0
    ) -> None:
        super().__init__()
        self.model, self.smoothing, self.matmul_dtype, self.r_drop = model, smoothing, matmul_dtype, r_drop

    def forward(self, batch: Batch) -> Tensor:
        if self.r_drop:
            return r_drop_loss(self.model, batch, self.smoothing, self.r_drop, self.matmul_dtype)
        return summed_loss(self.model, batch, self.smoothing, self.matmul_dtype)


def summed_loss(
    model: Transformer, batch: Batch, smoothing: float = 0.0, matmul_dtype: torch.dtype | None = None
) -> Tensor:
    """The label-smoothed cross-entropy in nats (section 5.4), summed over the batch's real target tokens.

    Smoothing ε puts 1 - ε on the correct token and spreads ε uniformly over the vocabulary. Only real positions are
    projected to the vocabulary, which is the widest product of a small model. `matmul_dtype`: a shorter dtype for
    matrix products.
    """
    with matmul_in(matmul_dtype, batch.source.device):
        hidden, targets = _real_positions(model, batch)
        return _loss(model, hidden, targets, smoothing, 0.0, matmul_dtype)


def r_drop_loss(
    model: Transformer, batch: Batch, smoothing: float, r_drop: float, matmul_dtype: torch.dtype | None = None
) -> Tensor:
    """R-Drop: the mean `summed_loss` of two passes with different dropout, plus the divergence between the passes.

    The divergence is the symmetric Kullback-Leibler divergence S = ½ Σ (p - q) (log p - log q) of their distributions
    at each token, times half of `r_drop`: half of what Liang et al. (2021) minimise, comparable with `summed_loss`.
    """
    with matmul_in(matmul_dtype, batch.source.device):
        hidden, targets = _real_positions(model, batch.twice())
        pairs = hidden.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)  # the two rows of a token are adjacent
        targets = targets[: len(targets) // 2].repeat_interleave(2)
        return _loss(model, pairs, targets, smoothing, r_drop, matmul_dtype) / 2


def _real_positions(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """The decoder's output at each position that is not padding, N D, and the target token there."""
    visible = model.visible(batch.source)
    hidden = model.decode(batch.target_in, model.encode(batch.source, visible), visible)
    return hidden[batch.target_mask], batch.target_out[batch.target_mask]


def _loss(
    model: Transformer, hidden: Tensor, targets: Tensor, smoothing: float, r_drop: float, dtype: torch.dtype | None
) -> Tensor:
    if hidden.is_cpu and not model.logits.has_listeners:  # fused where it is faster: on a GPU the plain way is as fast
        weight, bias = model.output_projection.weight, model.output_projection.bias
        options = (smoothing, r_drop, torch.is_grad_enabled(), dtype)
        loss: Tensor = ProjectedCrossEntropy.apply(model.scaled(hidden), weight, bias, targets, *options)
        return loss
    logits = model.project(hidden)
    loss = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    if r_drop:
        log_p, log_q = F.log_softmax(logits, -1).unflatten(0, (-1, 2)).unbind(1)
        loss = loss + r_drop / 2 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
    return loss


class ProjectedCrossEntropy(torch.autograd.Function):
    """Fused output projection and cross-entropy: the loss of hidden Wᵀ + b, with its gradients in the same pass.

    With p = softmax(z), the loss is logsumexp(z) - (1 - ε) z[target] - ε mean(z), and its gradient by z is
    p - ε / V - (1 - ε) [target]: simple enough to compute while the logits are still in the cache.

    With `r_drop`, rows come in pairs, and `r_drop` times S of each pair is added. With d = log p - log q, S has the
    gradient ½ (p (d - p · d) + p - q) by the first row's logits, and by the second's the same with p and q exchanged.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        r_drop: float,
        with_gradients: bool,
        matmul_dtype: torch.dtype | None,
    ) -> Tensor:
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        uniform = smoothing / len(weight)
        full, short = hidden.dtype, matmul_dtype_for(hidden, matmul_dtype)
        short_weight, short_bias = weight.to(short), None if bias is None else bias.to(short)
        loss = hidden.new_zeros(())
        for start in range(0, len(hidden), CHUNK_POSITIONS):
            rows = slice(start, start + CHUNK_POSITIONS)
            target_column = targets[rows, None]
            x = hidden[rows].to(short)
            log_p = torch.log_softmax(F.linear(x, short_weight, short_bias), 1, dtype=full)
            loss -= (1 - smoothing) * log_p.gather(1, target_column).sum() + uniform * log_p.sum()
            if r_drop:
                divergence, grad_logits = _divergence(log_p.unflatten(0, (-1, 2)), r_drop / 2)
                loss += divergence
            elif with_gradients:
                grad_logits = log_p.exp_()
            if with_gradients:
                correction = grad_logits.new_full(target_column.shape, smoothing - 1)
                grad_logits.sub_(uniform).scatter_add_(1, target_column, correction)
                if grad_bias is not None:
                    grad_bias += grad_logits.sum(0)
                grad_logits = grad_logits.to(short)
                grad_hidden[rows] = torch.mm(grad_logits, short_weight)
                if short == full:  # one pass over the matrix; a sum in another dtype than its products takes two
                    grad_weight.addmm_(grad_logits.t(), x)
                else:
                    grad_weight += torch.mm(grad_logits.t(), x)
        ctx.gradients = (grad_hidden, grad_weight, grad_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.gradients
        scale = grad_loss[0]
        return grad_hidden * scale, grad_weight * scale, None if grad_bias is None else grad_bias * scale, *[None] * 5


def _divergence(log_p: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """R-Drop's divergence 2 w S of pairs of rows (N 2 V), summed; and p plus its gradient by the logits, per row.

    With d = log p - log q that is p (1 + w + w (d - p · d)) - w q, and the same with p and q exchanged. Few passes over
    the vocabulary, and in place, since they cost as much as the products. Overwrites `log_p`.
    """
    d = log_p[:, 0] - log_p[:, 1]
    p = log_p.exp_()
    dots = torch.bmm(p, d[:, :, None])
    grad_logits = torch.empty_like(p)
    for this, other, sign in ((0, 1, weight), (1, 0, -weight)):
        torch.mul(p[:, other], -weight, out=grad_logits[:, this])
        grad_logits[:, this].addcmul_(p[:, this], torch.add(1 + weight - sign * dots[:, this], d, alpha=sign))
    return weight * (dots[:, 0] - dots[:, 1]).sum(), grad_logits.flatten(0, 1)
