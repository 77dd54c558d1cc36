"""The model directory: config.json, model.safetensors, manifest.json with checksums. Written atomically.

No pickle, no code.

Independent of tokenizers and training state, which other packages store beside the model, and of PyTorch, which is
imported only for tensors of its own.
"""

import os
import reprlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from glassformer.atomic_directory import building, verify
from glassformer.errors import DirectoryError
from glassformer.model.config import ModelConfig
from glassformer.model.eight_bits import from_eight_bits, to_eight_bits
from glassformer.model.parameter_shapes import parameter_shapes
from glassformer.model.saved_tensor import FLOATS, SavedTensor, saved_tensor
from glassformer.model.weight_files import read_tensors, write_tensors
from glassformer.model.weights import ModelWeights

if TYPE_CHECKING:
    from glassformer.model.dims import Tensor
    from glassformer.model.transformer import Transformer

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
MIN_TENSORS_PER_LAYER = 8
"""Number of tensors of the smallest possible layer: an encoder layer without biases."""
MAX_DIMENSION = 2**24
"""Upper limit of every integer option; the product of two still fits a number of bytes."""


def save_model(model: "Transformer | ModelWeights", path: str | os.PathLike[str], *, eight_bits: bool = False) -> None:
    """Write the model as a new directory, atomically: it is complete or absent.

    >>> gf.save_model(gf.Transformer(gf.preset("tiny", vocab_size=100)), "tiny-model")

    `eight_bits`: matrices are rounded to 256 levels per row and take a quarter of the space; they are read as float32.
    """
    with building(Path(path)) as directory:
        write_model(model, directory, eight_bits=eight_bits)


def write_model(model: "Transformer | ModelWeights", directory: Path, *, eight_bits: bool = False) -> None:
    """Write config and weights into a directory under construction; shared weights are written once."""
    (directory / CONFIG).write_text(model.config.as_json(), encoding="utf-8")
    tensors = ModelWeights.of(model).tensors
    write_tensors(to_eight_bits(tensors) if eight_bits else tensors, directory / WEIGHTS)


def load_model(path: str | os.PathLike[str]) -> "Transformer":
    """Load a model directory after verifying every file; the model is in `eval` mode.

    >>> gf.save_model(gf.Transformer(gf.preset("tiny", vocab_size=100)), "another-model")
    >>> gf.load_model("another-model").training
    False
    """
    return read_model(path).network


def read_model(path: str | os.PathLike[str]) -> ModelWeights:
    """Load a model directory as configuration and arrays, after verifying every file."""
    directory = Path(path)
    files = verify(directory)
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise DirectoryError(f"{directory} contains no complete model: its manifest does not list {name}.")
    config = ModelConfig.read(directory / CONFIG)
    return _checked(config, from_eight_bits(read_tensors(directory / WEIGHTS)), where=directory / WEIGHTS)


def write_weights(tensors: "Mapping[str, Tensor]", path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write named tensors of torch to a safetensors file in a directory under construction."""
    write_tensors({name: saved_tensor(tensor) for name, tensor in tensors.items()}, path, metadata)


def read_weights(path: Path) -> "dict[str, Tensor]":
    """Read a safetensors file as tensors of torch by name."""
    return {name: tensor.tensor() for name, tensor in read_tensors(path).items()}


def with_weights(config: ModelConfig, weights: Mapping[str, NDArray[Any]], where: Path | str) -> ModelWeights:
    """A model with exactly these weights; all mismatches are reported in one error."""
    return _checked(config, {name: SavedTensor(array, array.dtype.name) for name, array in weights.items()}, where)


def _checked(config: ModelConfig, tensors: dict[str, SavedTensor], where: Path | str) -> ModelWeights:
    if problem := _impossible_size(config, tensors):
        raise DirectoryError(f"{where} does not match its config: {problem}.")
    problems = list(_mismatches(config, tensors))
    if problems:
        raise DirectoryError(f"{where} does not match its config: {'; '.join(problems)}.")
    return ModelWeights(config, tensors)


def listed(names: Collection[str], most: int = 20) -> str:
    """Names for an error message: at most `most` of them, long ones shortened."""
    short = (name if len(name) <= 100 and name.isprintable() else repr(name[:50]) for name in sorted(names)[:most])
    return ", ".join(short) + (f" and {len(names) - most} more" if len(names) > most else "")


def _impossible_size(config: ModelConfig, weights: Mapping[str, SavedTensor]) -> str | None:
    """A size in the config that contradicts these tensors, found before anything of that size is allocated."""
    sizes = {name: value for name, value in config if type(value) is int}
    for name, size in (sizes | {"n_heads * d_head": config.n_heads * config.d_head}).items():
        if size > MAX_DIMENSION:
            return f"{name} = {reprlib.repr(size)} exceeds the limit of {MAX_DIMENSION:,}"
    layers = config.encoder_layers + config.decoder_layers
    needed = layers * MIN_TENSORS_PER_LAYER
    if needed > len(weights):
        return f"{layers:,} layers need at least {needed:,} tensors, and there are {len(weights):,}"
    longest = max((length for weight in weights.values() for length in weight.array.shape), default=0)
    if config.position_offset > longest:  # sinusoidal tables are made from position 0 on
        return f"position_offset = {config.position_offset:,} is larger than every dimension of its tensors"
    return None


def _mismatches(config: ModelConfig, weights: Mapping[str, SavedTensor]) -> Iterator[str]:
    expected = parameter_shapes(config)
    if missing := sorted(expected.keys() - weights.keys()):
        yield f"missing: {listed(missing)}"
    if unexpected := sorted(weights.keys() - expected.keys()):
        yield f"unexpected: {listed(unexpected)}"
    shapes = {name: weights[name].array.shape for name in sorted(expected.keys() & weights.keys())}
    mismatched = [name for name, shape in shapes.items() if shape != expected[name]]
    for name in mismatched[:20]:
        yield f"{name} has shape {reprlib.repr(list(shapes[name]))} instead of {list(expected[name])}"
    if len(mismatched) > 20:
        yield f"{len(mismatched) - 20} more tensors have other shapes"
    dtypes = {weight.dtype for weight in weights.values()}
    if not dtypes <= {*FLOATS} or len(dtypes) > 1:
        yield f"all tensors must have one floating-point dtype, and these have {', '.join(sorted(dtypes))}"
