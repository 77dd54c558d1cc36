"""Dropout with cheap random bits: on a CPU, drawing them took a tenth of a training step."""

import torch
from torch.nn import functional as F

from glassformer.model.dims import Tensor

LEVELS = 2**16  # the probability is rounded to a multiple of 1 / LEVELS


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout: each element becomes 0 with probability p, else it is divided by 1 - p; x itself when not training.

    torch draws one random number per element; here one 64-bit draw serves four elements. The draws come from torch's
    generator, so `torch.manual_seed` determines them.
    """
    if not training or p == 0:
        return x
    if not x.is_cpu or torch.compiler.is_compiling():
        return F.dropout(x, p, True)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    dropped = round(p * LEVELS)
    mask = (bits >= dropped - LEVELS // 2).to(x.dtype)
    return x * mask.mul_(LEVELS / (LEVELS - dropped))
