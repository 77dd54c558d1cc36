"""AdamW (arXiv:1711.05101), and its state as named tensors for checkpoints."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import DirectoryError
from glassformer.model.stack import Embedding
from glassformer.training.run_settings import TrainingSettings

STATE_TENSORS = ("exp_avg", "exp_avg_sq", "step")


def make_optimiser(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """Make AdamW over all weights; weight decay applies to matrices only, and not to embeddings."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, Embedding)}
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": settings.weight_decay},
        {"params": [], "weight_decay": 0.0},
    ]
    for weight in model.parameters():
        groups[weight.dim() <= 1 or id(weight) in embeddings]["params"].append(weight)
    first, second = settings.betas
    return torch.optim.AdamW(groups, settings.learning_rate, (first, second), settings.epsilon, fused=True)


def optimiser_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by name, such as `exp_avg.encoder.layers.0...`; empty before the first step."""
    return {
        f"{kind}.{name}": optimiser.state[weight][kind].detach().cpu()
        for name, weight in model.named_parameters()
        for kind in STATE_TENSORS
        if weight in optimiser.state
    }


def load_optimiser_state(
    model: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], where: object
) -> None:
    """Restore what `optimiser_state` returned; `where` names its origin in error messages."""
    expected = {f"{kind}.{name}" for name, _ in model.named_parameters() for kind in STATE_TENSORS}
    if tensors and expected != set(tensors):
        differing = len(expected ^ set(tensors))
        raise DirectoryError(
            f"The optimiser state in {where} does not match this model: {differing} tensor names differ. Choose "
            "another --out to start a new run."
        )
    for name, weight in model.named_parameters():
        if tensors:
            optimiser.state[weight] = {
                kind: tensors[f"{kind}.{name}"].to("cpu" if kind == "step" and weight.is_cpu else weight.device)
                for kind in STATE_TENSORS
            }
