"""Learning-rate schedules as a pure function of the update number, so that a resumed run needs no scheduler state."""

import math
from typing import Literal

Decay = Literal["inverse-sqrt", "cosine", "linear", "constant"]


def learning_rate(update: int, peak: float, warmup: int, total: int, decay: Decay) -> float:
    """Linear warm-up to `peak` at update `warmup`, then a fall according to `decay`; updates count from 1.

    "inverse-sqrt" is the paper's (section 5.3) and needs no end; "cosine" and "linear" reach 0 after update `total`.
    """
    if update <= warmup:
        return peak * update / warmup
    remaining = max(0.0, (total - update + 1) / (total - warmup + 1))
    match decay:
        case "inverse-sqrt":
            return peak * math.sqrt(max(1, warmup) / update)
        case "cosine":
            return peak * (1 - math.cos(math.pi * remaining)) / 2
        case "linear":
            return peak * remaining
        case "constant":
            return peak
