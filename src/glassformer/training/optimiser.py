"""AdamW (arXiv:1711.05101), and its memory as plain tensors with names."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.errors import DirectoryError
from glassformer.model.stack import Embedding
from glassformer.training.run_settings import TrainingSettings

MEMORY = ("exp_avg", "exp_avg_sq", "step")


def make_optimiser(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW over all weights; decay pulls on matrices only."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, Embedding)}
    decayed = [weight for weight in model.parameters() if weight.dim() > 1 and id(weight) not in tables]
    chosen = {id(weight) for weight in decayed}
    others = [weight for weight in model.parameters() if id(weight) not in chosen]
    first, second = settings.betas
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=settings.learning_rate,
        betas=(first, second),
        eps=settings.epsilon,
        fused=True,
    )


def memory(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers, as `exp_avg.encoder.layers.0...`; nothing before the first step."""
    return {
        f"{kind}.{name}": optimiser.state[weight][kind].detach().cpu()
        for name, weight in model.named_parameters()
        for kind in MEMORY
        if weight in optimiser.state
    }


def remember(model: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], where: object) -> None:
    """Give an optimiser the memory that was saved."""
    wanted = {f"{kind}.{name}" for name, _ in model.named_parameters() for kind in MEMORY}
    if tensors and wanted != set(tensors):
        raise DirectoryError(f"{where} does not belong to this model: {len(wanted ^ set(tensors))} names differ.")
    for name, weight in model.named_parameters():
        if tensors:
            optimiser.state[weight] = {
                kind: tensors[f"{kind}.{name}"].to("cpu" if kind == "step" and weight.is_cpu else weight.device)
                for kind in MEMORY
            }
