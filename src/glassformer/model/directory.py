"""The model directory: config.json, model.safetensors, manifest.json with checksums. Written atomically.

No pickle, no code.

Independent of tokenizers and training state, which other packages store beside the model.
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
ALIGNMENT_BYTES = 64
"""Alignment of the tensors that torch allocates."""
MAX_HEADER_BYTES = 2**20
"""Maximum header of a safetensors file: enough for ten thousand tensors; parsed, it takes 25 times as much memory."""
MIN_TENSORS_PER_LAYER = 8
"""Number of tensors of the smallest possible layer: an encoder layer without biases."""
MAX_DIMENSION = 2**24
"""Upper limit of every integer option; the product of two still fits a number of bytes."""


def save_model(model: Transformer, path: str | os.PathLike[str]) -> None:
    """Write the model as a new directory, atomically: it is complete or absent."""
    with building(Path(path)) as directory:
        write_model(model, directory)


def write_model(model: Transformer, directory: Path) -> None:
    """Write config and weights into a directory under construction; shared weights are written once."""
    (directory / CONFIG).write_text(model.config.as_json(), encoding="utf-8")
    # named_parameters yields a shared parameter once, under its first name.
    write_weights({name: weight.detach() for name, weight in model.named_parameters()}, directory / WEIGHTS)


def load_model(path: str | os.PathLike[str]) -> Transformer:
    """Load a model directory after verifying every file; the model is in `eval` mode."""
    directory = Path(path)
    files = verify(directory)
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise DirectoryError(f"{directory} contains no complete model: its manifest does not list {name}.")
    config = ModelConfig.read(directory / CONFIG)
    return with_weights(config, read_weights(directory / WEIGHTS), where=directory / WEIGHTS)


def write_weights(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors to a safetensors file in a directory under construction."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:  # how the library reports a full disk
        raise DirectoryError(f"{path} cannot be written: {error}.") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file by name."""
    try:
        with path.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
        if header > MAX_HEADER_BYTES:
            raise DirectoryError(f"{path} has a header of {header:,} bytes; the limit is {MAX_HEADER_BYTES:,}.")
        return _aligned(load_file(path), path, 8 + header)
    except (SafetensorError, OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        # The last three: a dtype that this version of torch does not have.
        reason = (str(error).splitlines() or [type(error).__name__])[0][:300].removesuffix(".")
        raise DirectoryError(f"{path} is not a readable safetensors file: {reason}.") from None


def _aligned(mapped: dict[str, Tensor], path: Path, begin: int) -> dict[str, Tensor]:
    """Mapped tensors as they are, or, if one is not aligned as torch allocates memory, read into aligned memory.

    In a file they have any alignment, and on some processors the last bits of a product depend on it: a saved and
    loaded model would not give quite the same results.
    """
    first = min((tensor.data_ptr() for tensor in mapped.values() if tensor.numel()), default=0)
    if all(tensor.data_ptr() % ALIGNMENT_BYTES == 0 for tensor in mapped.values()):
        return mapped
    tensors = {}
    with path.open("rb") as file:  # read, not copied: a mapped tensor takes no memory until it is accessed
        for name, tensor in mapped.items():
            tensors[name] = torch.empty_like(tensor)
            if tensor.numel():
                file.seek(begin + tensor.data_ptr() - first)
                file.readinto(tensors[name].view(-1).view(torch.uint8).numpy().data)
    return tensors


def with_weights(config: ModelConfig, weights: dict[str, Tensor], where: Path | str) -> Transformer:
    """Build a model with exactly these weights; all mismatches are reported in one error."""
    if problem := _impossible_size(config, weights):
        raise DirectoryError(f"{where} does not match its config: {problem}.")
    with torch.device("meta"):  # shapes only: no memory is filled with values that would be replaced
        model = Transformer(config)
    problems = list(_mismatches(model, weights))
    if problems:
        raise DirectoryError(f"{where} does not match its config: {'; '.join(problems)}.")
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie()  # assigning set only the first name of each shared weight
    model.requires_grad_()
    return model.eval()


def listed(names: Collection[str], most: int = 20) -> str:
    """Names for an error message: at most `most` of them, long ones shortened."""
    short = (name if len(name) <= 100 and name.isprintable() else repr(name[:50]) for name in sorted(names)[:most])
    return ", ".join(short) + (f" and {len(names) - most} more" if len(names) > most else "")


def _impossible_size(config: ModelConfig, weights: dict[str, Tensor]) -> str | None:
    """A size in the config that contradicts these tensors, found before anything of that size is allocated."""
    sizes = {name: value for name, value in config if type(value) is int}
    for name, size in (sizes | {"n_heads * d_head": config.n_heads * config.d_head}).items():
        if size > MAX_DIMENSION:
            return f"{name} = {reprlib.repr(size)} exceeds the limit of {MAX_DIMENSION:,}"
    layers = config.encoder_layers + config.decoder_layers
    needed = layers * MIN_TENSORS_PER_LAYER
    if needed > len(weights):
        return f"{layers:,} layers need at least {needed:,} tensors, and there are {len(weights):,}"
    longest = max((length for weight in weights.values() for length in weight.shape), default=0)
    if config.position_offset > longest:  # sinusoidal tables are made from position 0 on
        return f"position_offset = {config.position_offset:,} is larger than every dimension of its tensors"
    return None


def _mismatches(model: Transformer, weights: dict[str, Tensor]) -> Iterator[str]:
    expected = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    if missing := sorted(expected.keys() - weights.keys()):
        yield f"missing: {listed(missing)}"
    if unexpected := sorted(weights.keys() - expected.keys()):
        yield f"unexpected: {listed(unexpected)}"
    shapes = {name: tuple(weights[name].shape) for name in sorted(expected.keys() & weights.keys())}
    mismatched = [name for name, shape in shapes.items() if shape != expected[name]]
    for name in mismatched[:20]:
        yield f"{name} has shape {reprlib.repr(list(shapes[name]))} instead of {list(expected[name])}"
    if len(mismatched) > 20:
        yield f"{len(mismatched) - 20} more tensors have other shapes"
    dtypes = {str(weight.dtype).removeprefix("torch.") for weight in weights.values()}
    if any(not weight.is_floating_point() for weight in weights.values()) or len(dtypes) > 1:
        yield f"all tensors must have one floating-point dtype, and these have {', '.join(sorted(dtypes))}"
