"""The model directory: config.json, model.safetensors, and the seal. No pickle, no code, nothing half-written.

Knows nothing of tokenizers and training state, which other rooms put beside the model.
"""

import os
import reprlib
from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from glassformer.atomic_directory import building, verify
from glassformer.errors import DirectoryError
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Tensor
from glassformer.model.transformer import Transformer

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
ALIGNMENT = 64
"""Bytes: where torch lets tensors begin."""
LARGEST_HEADER = 2**20
"""Bytes of the list that a file of weights begins with: ten thousand tensors; once read, it takes 25 times as much."""
FEWEST = 8
"""Tensors of the smallest layer there is: an encoder's without biases."""
LARGEST = 2**24
"""Of any size; the product of two is still a number of bytes."""


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
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > LARGEST_HEADER:
            raise DirectoryError(f"{path} begins with a list of {header:,} bytes; it may have {LARGEST_HEADER:,}.")
        return _aligned(load_file(path), path, 8 + header)
    except (SafetensorError, OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        # The last three: a kind of number that this torch does not know.
        why = (str(error).splitlines() or [type(error).__name__])[0][:300].removesuffix(".")
        raise DirectoryError(f"{path} is not a readable safetensors file: {why}.") from None


def _aligned(mapped: dict[str, Tensor], path: Path, begin: int) -> dict[str, Tensor]:
    """The same tensors where torch itself would put them. A file has them anywhere, and with some processors the last
    bits of a product depend on where its factors stand: a model that comes back would not say quite the same."""
    first = min((tensor.data_ptr() for tensor in mapped.values() if tensor.numel()), default=0)
    if all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in mapped.values()):
        return mapped
    found = {}
    with path.open("rb") as file:  # read, not copied: what is mapped takes no memory until it is looked at
        for name, tensor in mapped.items():
            found[name] = torch.empty_like(tensor)
            if tensor.numel():
                file.seek(begin + tensor.data_ptr() - first)
                file.readinto(found[name].view(-1).view(torch.uint8).numpy().data)
    return found


def with_weights(config: ModelConfig, weights: dict[str, Tensor], where: Path | str) -> Transformer:
    """A model that holds exactly these tensors; all that do not fit are named together."""
    if complaint := _out_of_reach(config, weights):
        raise DirectoryError(f"{where} does not fit its config: {complaint}.")
    with torch.device("meta"):  # shapes without numbers: nothing is filled in only to be thrown away
        model = Transformer(config)
    complaints = list(_misfits(model, weights))
    if complaints:
        raise DirectoryError(f"{where} does not fit its config: {'; '.join(complaints)}.")
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie()  # assigning gave only the first of the shared names its weight
    model.requires_grad_()
    return model.eval()


def listed(names: Collection[str], most: int = 20) -> str:
    """Names for a sentence: some, if they are many, and each only so long."""
    short = (name if len(name) <= 100 and name.isprintable() else repr(name[:50]) for name in sorted(names)[:most])
    return ", ".join(short) + (f" and {len(names) - most} more" if len(names) > most else "")


def _out_of_reach(config: ModelConfig, weights: dict[str, Tensor]) -> str | None:
    """What a config asks for that these tensors cannot be, found before anything of that size is made."""
    sizes = {name: value for name, value in config if type(value) is int}
    for name, size in (sizes | {"n_heads * d_head": config.n_heads * config.d_head}).items():
        if size > LARGEST:
            return f"{name} = {reprlib.repr(size)} is more than any model has"
    layers = config.encoder_layers + config.decoder_layers
    if layers * FEWEST > len(weights):
        return f"{layers:,} layers take {layers * FEWEST:,} tensors or more, and there are {len(weights):,}"
    longest = max((length for weight in weights.values() for length in weight.shape), default=0)
    if config.position_offset > longest:  # tables of sine waves are made from position 0 on
        return f"position_offset = {config.position_offset:,} is more than any of its tensors has rows"
    return None


def _misfits(model: Transformer, weights: dict[str, Tensor]) -> Iterator[str]:
    wanted = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    if missing := sorted(wanted.keys() - weights.keys()):
        yield f"missing: {listed(missing)}"
    if surplus := sorted(weights.keys() - wanted.keys()):
        yield f"surplus: {listed(surplus)}"
    shapes = {name: tuple(weights[name].shape) for name in sorted(wanted.keys() & weights.keys())}
    other = [name for name, shape in shapes.items() if shape != wanted[name]]
    for name in other[:20]:
        yield f"{name} is {reprlib.repr(list(shapes[name]))} instead of {list(wanted[name])}"
    if len(other) > 20:
        yield f"and {len(other) - 20} more have other shapes"
    kinds = {str(weight.dtype).removeprefix("torch.") for weight in weights.values()}
    if any(not weight.is_floating_point() for weight in weights.values()) or len(kinds) > 1:
        yield f"all tensors must be of one floating-point type, and these are {', '.join(sorted(kinds))}"
