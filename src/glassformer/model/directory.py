"""The model directory: config.json, model.safetensors, and the seal. No pickle, no code, nothing half-written.

Knows nothing of tokenizers and training state, which other rooms put beside the model.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from glassformer.errors import DirectoryError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Tensor
from glassformer.model.transformer import Transformer
from glassformer.sealed import building, verify

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


def save_model(model: Transformer, path: str | os.PathLike[str]) -> None:
    """Write the model as a new directory; it is there whole or not at all."""
    with building(Path(path)) as directory:
        write_model(model, directory)


def write_model(model: Transformer, directory: Path) -> None:
    """Config and weights into a directory under construction; weights that are shared, once."""
    (directory / CONFIG).write_text(model.config.as_json(), encoding="utf-8")
    # named_parameters gives a shared parameter once, under its first name.
    write_weights({name: weight.detach() for name, weight in model.named_parameters()}, directory / WEIGHTS)


def load_model(path: str | os.PathLike[str]) -> Transformer:
    """The model of a directory, after every file was found whole; ready to run, not to train (`eval`)."""
    directory = Path(path)
    files = verify(directory)
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise DirectoryError(f"{directory} holds no model: its manifest does not list {name}.")
    config = ModelConfig.read(directory / CONFIG)
    return with_weights(config, read_weights(directory / WEIGHTS), where=directory / WEIGHTS)


def write_weights(tensors: dict[str, Tensor], path: Path, about: dict[str, str] | None = None) -> None:
    """Tensors by name into a safetensors file of a directory under construction."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, about)
    except SafetensorError as error:  # how the library reports a full disk
        raise DirectoryError(f"{path} cannot be written: {error}.") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name."""
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DirectoryError(f"{path} is not a readable safetensors file: {error}.") from None


def with_weights(config: ModelConfig, weights: dict[str, Tensor], where: Path | str) -> Transformer:
    """A model that holds exactly these tensors; all that do not fit are named together."""
    with torch.device("meta"):  # shapes without numbers: nothing is filled in only to be thrown away
        model = Transformer(config)
    complaints = list(_misfits(model, weights))
    if complaints:
        raise DirectoryError(f"{where} does not fit its config: {'; '.join(complaints)}.")
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie()  # assigning gave only the first of the shared names its weight
    model.requires_grad_()
    return model.eval()


def _misfits(model: Transformer, weights: dict[str, Tensor]) -> Iterator[str]:
    wanted = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    if missing := sorted(wanted.keys() - weights.keys()):
        yield f"missing: {', '.join(missing)}"
    if surplus := sorted(weights.keys() - wanted.keys()):
        yield f"surplus: {', '.join(surplus)}"
    for name in sorted(wanted.keys() & weights.keys()):
        if tuple(weights[name].shape) != wanted[name]:
            yield f"{name} is {list(weights[name].shape)} instead of {list(wanted[name])}"
    kinds = {str(weight.dtype).removeprefix("torch.") for weight in weights.values()}
    if any(not weight.is_floating_point() for weight in weights.values()) or len(kinds) > 1:
        yield f"all tensors must be of one floating-point type, and these are {', '.join(sorted(kinds))}"
