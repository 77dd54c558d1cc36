"""Dropout with cheap random bits: on a CPU, drawing them was a tenth of a training step."""

import torch
from torch.nn import functional as F

from glassformer.model.dims import Tensor

LEVELS = 2**16  # a probability is rounded to this many steps


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x with each element zeroed with probability p, the others multiplied by 1 / (1 - p); x itself when not training.

    torch draws a random number for every element; here one draw of 64 bits serves four. They come from torch's own
    generator, so `torch.manual_seed` decides them.
    """
    if not training or p == 0:
        return x
    if not x.is_cpu or torch.compiler.is_compiling():
        return F.dropout(x, p, True)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    dropped = round(p * LEVELS)
    kept = (bits >= dropped - LEVELS // 2).to(x.dtype)
    return x * kept.mul_(LEVELS / (LEVELS - dropped))
