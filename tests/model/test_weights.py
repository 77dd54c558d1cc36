"""A model as arrays: the names, shapes, tables and numbers of the PyTorch model, without it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.model import ModelWeights, n_parameters, read_model, save_model
from glassformer.model.parameter_shapes import parameter_shapes
from glassformer.model.position_kinds import distance_bucket, position_kind
from glassformer.model.positions import added_positions, rotations
from glassformer.model.saved_tensor import rounded, saved_tensor
from tests.examples import max_examples
from tests.models import build, configs, seeds

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@max_examples(300)
@given(configs(), seeds)
def test_names_and_shapes_are_those_of_the_network(config, seed):
    model = build(config, seed)
    for every_name in (False, True):
        named = model.named_parameters(remove_duplicate=not every_name)
        expected = [(name, tuple(weight.shape)) for name, weight in named]
        assert list(parameter_shapes(config, every_name).items()) == expected
    assert n_parameters(config) == model.n_parameters == ModelWeights.of(model).n_parameters


@max_examples(60)
@given(configs(), seeds, st.sampled_from(DTYPES))
def test_arrays_are_the_networks_weights_under_every_name(config, seed, dtype):
    model = build(config, seed, dtype)
    weights = ModelWeights.of(model)
    for name, weight in model.named_parameters(remove_duplicate=False):
        expected = weight.detach().float() if dtype == torch.bfloat16 else weight.detach()
        assert np.array_equal(weights[name], expected.numpy())
    again = ModelWeights(config, weights.tensors).network
    for (name, weight), (other_name, other) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert (name, weight.dtype) == (other_name, other.dtype)
        assert torch.equal(weight, other)


@max_examples(40)
@given(configs(), seeds, st.sampled_from(DTYPES))
def test_a_read_model_is_saved_as_the_same_bytes(tmp_path_factory, config, seed, dtype):
    here = tmp_path_factory.mktemp("models")
    save_model(build(config, seed, dtype), here / "one")
    read = read_model(here / "one")
    save_model(read, here / "two")
    assert (here / "one/model.safetensors").read_bytes() == (here / "two/model.safetensors").read_bytes()
    assert (here / "one/config.json").read_bytes() == (here / "two/config.json").read_bytes()
    for tensor in read.tensors.values():
        assert tensor.array.ctypes.data % 64 == 0


@given(st.lists(st.floats(-60_000, 60_000, width=64), min_size=1, max_size=20), st.sampled_from(DTYPES))
def test_numbers_are_rounded_as_torch_rounds_them(numbers, dtype):
    values = np.array(numbers)
    ours = rounded(values, str(dtype).removeprefix("torch."))
    theirs = saved_tensor(torch.from_numpy(values).to(dtype)).values
    assert np.array_equal(ours, theirs)


@max_examples(60)
@given(configs(), st.integers(0, 9), st.integers(1, 90), st.sampled_from(DTYPES))
def test_tables_have_the_bits_of_the_modules(config, first, length, dtype):
    """What the C engine packs and what the network computes with."""
    kind, like, name = position_kind(config), torch.empty(0, dtype=dtype), str(dtype).removeprefix("torch.")
    if kind.layout is not None:
        begin = first + config.position_offset
        table = rounded(kind.layout(begin + length, config.d_model), name)[begin:]
        theirs = added_positions(config, "S")(first, length, like)
        assert np.array_equal(table, saved_tensor(theirs).values)
    if kind.rotation is not None:
        table = rounded(kind.rotation(config, first + length), name)[:, first:]
        assert np.array_equal(table, saved_tensor(rotations(config, first, length, like).contiguous()).values)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (12, 100), (64, 256)])
def test_distance_buckets_grow_with_the_distance_and_end_at_the_last(buckets, max_distance, bidirectional):
    distance = np.arange(0, 4 * max_distance)
    found = distance_bucket(-distance, buckets, max_distance, bidirectional)
    per_side = buckets // 2 if bidirectional else buckets
    exact = per_side // 2
    assert (np.diff(found) >= 0).all()
    assert found[:exact].tolist() == list(range(exact))
    assert (found[max_distance:] == per_side - 1).all()
