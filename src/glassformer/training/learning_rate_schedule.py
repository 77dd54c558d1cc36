"""The learning rate at each update: a pure function of the update's number, so that a resumed run needs no memory."""

import math
from typing import Literal

Decay = Literal["inverse-sqrt", "cosine", "linear", "constant"]


def learning_rate(update: int, peak: float, warmup: int, total: int, decay: Decay) -> float:
    """Rises in a straight line to `peak` at update `warmup`, then falls as `decay` says; updates count from 1.

    "inverse-sqrt" is the paper's (section 5.3) and needs no end; "cosine" and "linear" reach 0 after update `total`.
    """
    if update <= warmup:
        return peak * update / warmup
    left = max(0.0, (total - update + 1) / (total - warmup + 1))
    match decay:
        case "inverse-sqrt":
            return peak * math.sqrt(max(1, warmup) / update)
        case "cosine":
            return peak * (1 - math.cos(math.pi * left)) / 2
        case "linear":
            return peak * left
        case "constant":
            return peak
