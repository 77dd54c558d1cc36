"""bfloat16: rounding, the bound of a product, and processors that do not multiply in it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from glassformer.engine import EngineOptions, factory, fast_precisions, open_step_model
from glassformer.engine.engine_options import PRECISIONS
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.native_weights import bfloat16_bits
from glassformer.engine.reduced_precision import Bfloat16Linear
from glassformer.errors import InputError
from tests.examples import max_examples
from tests.models import seeds
from tests.small_translator import model as small_model


class OtherProcessor:
    """The library on a processor without products in bfloat16."""

    def __getattr__(self, name):
        return getattr(library(), name)

    def multiplies_bfloat16(self):
        return 0


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32)), seeds)
def test_numbers_are_rounded_as_torch_rounds_them(numbers, seed):
    ties = np.random.default_rng(seed).integers(0, 0x7F7F, 100, dtype=np.uint32) << 16 | 0x8000
    x = np.concatenate([np.array(numbers, dtype=np.float32), ties.view(np.float32)])
    theirs = torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert (bfloat16_bits(x) == theirs).all()


@max_examples(200)
@given(st.integers(1, 300), st.integers(-30, 30), seeds)
@torch.no_grad()
def test_a_product_is_within_its_bound(inputs, exponent, seed):
    """tests/native/product_laws.h has the same law for the C engine."""
    generator = torch.Generator().manual_seed(seed)
    linear, x = nn.Linear(inputs, 20), torch.randn(30, inputs, generator=generator) * 2.0**exponent
    linear.weight.normal_(generator=generator), linear.bias.normal_(generator=generator)
    weight, bias = linear.weight.double(), linear.bias.double()
    sizes = x.double().abs() @ weight.abs().T
    lost = (inputs + 1) * 2.0**-24
    bound = 2.0**-7 * sizes + lost / (1 - lost) * (1.01 * sizes + bias.abs())
    assert ((Bfloat16Linear(linear)(x).double() - (x.double() @ weight.T + bias)).abs() <= bound).all()


@pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
def test_a_processor_that_does_not_multiply_in_it_refuses_it(monkeypatch):
    monkeypatch.setattr(factory, "library", OtherProcessor)
    assert fast_precisions() == ["float32", "float16", "int8"]
    with pytest.raises(InputError, match=r"needs a processor with AVX-512 BF16 .*: use float32, float16 or int8"):
        open_step_model(small_model(), EngineOptions(precision="bfloat16"))
    open_step_model(small_model(), EngineOptions(precision="bfloat16", engine="plain"))
    assert isinstance(open_step_model(small_model(), EngineOptions(precision="int8")), NativeStepModel)


@pytest.mark.skipif("bfloat16" not in fast_precisions(), reason="this processor does not multiply in bfloat16")
def test_a_processor_that_multiplies_in_it_has_every_precision():
    assert fast_precisions() == list(PRECISIONS)
    model = open_step_model(small_model(), EngineOptions(precision="bfloat16"))
    assert not library() or isinstance(model, NativeStepModel)
