"""Eight-bit weights: what is read is exactly level times scale, near the original, and the same when saved again."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.atomic_directory import building
from glassformer.errors import DirectoryError
from glassformer.model import load_model, preset, read_model, save_model
from glassformer.model.eight_bits import SCALE, from_eight_bits, to_eight_bits
from glassformer.model.saved_tensor import SavedTensor
from glassformer.model.weight_files import read_tensors, write_tensors
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources, targets


def matrix(rows, columns, exponent, seed):
    random = np.random.default_rng(seed)
    values = random.standard_normal((rows, columns)) * 10.0**exponent * random.integers(0, 3, (rows, 1))
    return values.astype(np.float32)


@max_examples(200)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(-44, 37), seeds)
def test_a_matrix_is_exactly_levels_times_scales_and_within_half_a_level(rows, columns, exponent, seed):
    values = matrix(rows, columns, exponent, seed)
    stored = to_eight_bits({"w": SavedTensor(values, "float32")})
    levels, scales = (stored[name].array.astype(np.float64) for name in ("w", "w" + SCALE))
    read = from_eight_bits(stored)["w"].values.astype(np.float64)
    assert np.array_equal(read, levels * scales[:, None])
    assert np.all(np.abs(read - values) <= scales[:, None] / 2 * (1 + 1e-6))  # rint of a float32 quotient


@max_examples(200)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(-30, 30), seeds)
def test_what_was_read_is_stored_as_the_same_bytes(rows, columns, exponent, seed):
    stored = to_eight_bits({"w": SavedTensor(matrix(rows, columns, exponent, seed), "float32")})
    again = to_eight_bits(from_eight_bits(stored))
    assert {name: tensor.array.tobytes() for name, tensor in stored.items()} == {
        name: tensor.array.tobytes() for name, tensor in again.items()
    }


@max_examples(50)
@given(configs(), seeds)
@torch.no_grad()
def test_every_model_can_be_saved_in_eight_bits(tmp_path_factory, config, seed):
    """The second directory is made of the float32 model that was read from the first: both give the same bits."""
    path = tmp_path_factory.mktemp("models")
    save_model(build(config, seed, torch.float32), path / "first", eight_bits=True)
    first = load_model(path / "first")
    save_model(first, path / "second", eight_bits=True)
    save_model(first, path / "float32")
    source, target = sources(config, [4, 2], seed), targets(config, [3, 3], seed)
    for name in ("second", "float32"):
        assert torch.equal(load_model(path / name)(source, target), first(source, target))


def test_eight_bits_take_about_a_quarter_of_the_space(tmp_path):
    model = build(preset("tiny", vocab_size=2000), dtype=torch.float32)
    save_model(model, tmp_path / "float32")
    save_model(model, tmp_path / "int8", eight_bits=True)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("float32", "int8")]
    assert sizes[1] < 0.27 * sizes[0]
    assert read_model(tmp_path / "int8").dtype == "float32"


@pytest.mark.parametrize("value", [np.nan, np.inf, np.finfo(np.float32).max])
def test_numbers_without_eight_bits_are_refused(value):
    with pytest.raises(DirectoryError, match="too large for eight bits, or not finite"):
        to_eight_bits({"w": SavedTensor(np.full((2, 2), value, np.float32), "float32")})


@pytest.mark.parametrize("damage", ["no scale", "short scale", "scale of another type", "scale alone", "no row"])
def test_levels_without_their_scales_are_refused(tmp_path, damage):
    save_model(build(preset("tiny", vocab_size=20), dtype=torch.float32), tmp_path / "model", eight_bits=True)
    tensors = read_tensors(tmp_path / "model/model.safetensors")
    name = next(name for name in tensors if name + SCALE in tensors)
    scale = tensors.pop(name + SCALE)
    if damage == "short scale":
        tensors[name + SCALE] = SavedTensor(scale.array[:-1], "float32")
    elif damage == "scale of another type":
        tensors[name + SCALE] = SavedTensor(scale.array.astype(np.float64), "float64")
    elif damage == "scale alone":
        tensors[name + SCALE] = scale
        tensors[name] = SavedTensor(tensors[name].array.astype(np.float32), "float32")
    elif damage == "no row":
        tensors[name + SCALE] = scale
        tensors[name] = SavedTensor(tensors[name].array[0, 0], "int8")
    config = (tmp_path / "model/config.json").read_bytes()
    with building(tmp_path / "damaged") as directory:
        (directory / "config.json").write_bytes(config)
        write_tensors(tensors, directory / "model.safetensors")
    with pytest.raises(DirectoryError, match="does not match its config"):
        read_model(tmp_path / "damaged")
