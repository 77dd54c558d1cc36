"""Weights and activations that are not finite numbers are refused in every precision, and never answered."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import Beam, Request, Sample, search
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.reduced_precision import quantise_rows
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import InputError
from glassformer.model import ModelConfig
from tests.decoding.test_search_on_models import lively, texts_of
from tests.examples import max_examples
from tests.models import configs, seeds

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
PRECISIONS = ("float32", "float16", "bfloat16", "int8")
SEARCHES = (Beam(size=2), Beam.greedy(), Sample(n_best=2), Beam(size=2, no_repeat=2))


def small(**options):
    shape = {"vocab_size": 40, "d_model": 24, "n_heads": 2, "d_ff": 20, "encoder_layers": 1, "decoder_layers": 1}
    return lively(ModelConfig(**shape | options), 0).float()


def native(model, precision="float32"):
    return NativeStepModel(model, library(), precision)


@max_examples(100)
@given(configs(), seeds, st.sampled_from([math.nan, math.inf, -math.inf]), st.sampled_from(PRECISIONS), st.randoms())
def test_a_weight_that_is_not_finite_is_refused_by_name(config, seed, value, precision, generator):
    model = lively(config, seed).float()
    name, weight = generator.choice(list(model.named_parameters()))
    with torch.no_grad():
        weight.view(-1)[generator.randrange(weight.numel())] = value
    with pytest.raises(InputError, match=f"The weight {name} contains values that are not numbers"):
        native(model, precision)


def test_a_weight_that_is_too_large_for_the_precision_is_refused():
    model = small(output_bias=True)
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.up_proj.weight[3, 4] = 70_000
        model.output_projection.bias[7] = 70_000  # biases are float32 in every precision
    with pytest.raises(InputError, match=r"up_proj\.weight contains a number of size 7e\+04, .* too large for float16"):
        native(model, "float16")
    native(model, "int8")
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.up_proj.weight[3, 4] = 3.4e38
    native(model)
    with pytest.raises(
        InputError, match=r"up_proj\.weight contains a number of size 3.4e\+38, .* too large for bfloat16"
    ):
        native(model, "bfloat16")
    model = model.double()
    with torch.no_grad():
        model.output_projection.bias[7] = 1e39
    with pytest.raises(InputError, match="too large for float32"):
        native(model)


def test_products_whose_int8_sums_would_overflow_are_refused():
    """255 * 127 * 66,312 is more than 2^31; one less is computed, with the largest sums that there are."""
    with pytest.raises(InputError, match="has 66,312 inputs; int8 allows at most 66,311"):
        native(small(d_ff=66_312), "int8")
    model = small(d_ff=66_311, tie_output=False)
    with torch.no_grad():
        for layer in (model.encoder.layers[0].feed_forward, model.decoder.layers[0].feed_forward):
            layer.up_proj.weight.zero_(), layer.up_proj.bias.fill_(1.0), layer.down_proj.weight.fill_(0.1)
    found = [search(native(model, precision), [Request([5, 6, 2])], Beam(size=2))[0][0] for precision in PRECISIONS]
    assert len({tuple(hypothesis.tokens) for hypothesis in found}) == 1
    assert found[-1].score == pytest.approx(found[0].score, abs=0.1)


OVERFLOWS = {
    "norm": ("decoder.layers.0.feed_forward_norm.weight", 3e38),
    "embedding": ("encoder.embedding.weight", 1e38),
    "scores": ("decoder.layers.0.cross_attention.q_proj.weight", 1e38),
    "keys": ("encoder.layers.0.self_attention.k_proj.bias", 3e38),
    "hidden": ("encoder.layers.0.feed_forward.up_proj.weight", -3e38),
    "values": ("decoder.layers.0.self_attention.v_proj.weight", 3e38),
    "logits": ("output_projection.weight", 3e38),
    "output bias": ("output_projection.bias", 3.4e38),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("part", OVERFLOWS)
@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_overflow_inside_is_noticed(part, precision, activation, norm_first):
    """Weights are finite, but what is computed from them is not: relu, softmax and 1 / sqrt(x) used to hide it."""
    model = small(output_bias=True, tie_output=False, activation=activation, norm_first=norm_first)
    name, value = OVERFLOWS[part]
    with torch.no_grad():
        dict(model.named_parameters())[name].fill_(value)
        model.output_projection.bias[5] = 3e38 if part == "output bias" else 0
        model.output_projection.weight[5] *= 1e38 if part == "output bias" else 1
    for settings in SEARCHES:
        with pytest.raises(InputError, match=r"not numbers|too large for float16"):
            search(native(model, precision), [Request([5, 6, 2])], settings)


@pytest.mark.parametrize("bias", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("settings", SEARCHES)
def test_logits_that_are_not_finite_are_refused_by_the_plain_model(bias, settings):
    """All logits at -inf gave padding with a score of NaN; one at +inf gave an IndexError."""
    model = small(output_bias=True)
    with torch.no_grad():
        model.output_projection.bias[slice(None) if bias < 0 else 7] = bias
    with pytest.raises(InputError, match="not numbers"):
        search(PlainStepModel(model), [Request([5, 2])], settings)


@max_examples(100)
@given(configs(), seeds, st.sampled_from(PRECISIONS))
def test_finite_models_are_answered_with_finite_scores(config, seed, precision):
    model = lively(config, seed).float()
    for n_best in search(native(model, precision), [Request(text) for text in texts_of(config, seed)], Beam(size=2)):
        assert math.isfinite(n_best[0].score)


def test_rows_of_tiny_numbers_are_quantised_to_zero():
    steps, scale = quantise_rows(torch.tensor([[1e-38, 0.0], [1.0, -0.5]]))
    assert steps.tolist() == [[0, 0], [127, -64]]
    assert scale.isfinite().all()
