"""Products in bfloat16 are products of rounded numbers, forwards and backwards, and nothing else is rounded."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.data.padded_batch import make_batch
from glassformer.model import ModelConfig, Transformer
from glassformer.training.loss import TrainingLoss, summed_loss
from glassformer.training.mixed_precision import chosen_dtype, products_in
from glassformer.training.run_resources import what_bits_depend_on
from tests.examples import max_examples
from tests.models import build, configs, seeds
from tests.training.test_loss import ours, pairs

CPU = torch.device("cpu")
HALF = torch.bfloat16
STEP = 2**-7  # one unit in the last place of bfloat16, relative to a number


@max_examples(100)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40), st.booleans(), seeds)
def test_a_product_is_that_of_rounded_numbers(rows, inputs, outputs, biased, seed):
    """Against float64 on the rounded numbers; the result is rounded as well, to within one step of the sum's size."""
    torch.manual_seed(seed)
    x = torch.randn(2, rows, inputs, requires_grad=True)
    weight = torch.randn(outputs, inputs, requires_grad=True)
    bias = torch.randn(outputs, requires_grad=True) if biased else None
    by_y = torch.randn(2, rows, outputs)
    with products_in(HALF, CPU):
        y = F.linear(x, weight, bias)
    y.backward(by_y)  # outside, as a training step does it

    def rounded(a: torch.Tensor) -> torch.Tensor:
        return a.detach().to(HALF).double().flatten(0, -2)

    def same(found: torch.Tensor | None, one: torch.Tensor, other: torch.Tensor) -> None:
        assert found is not None
        assert found.dtype == torch.float32
        bound = STEP * (one.abs() @ other.abs()) + 1e-30
        assert ((found.detach().flatten(0, -2).double() - one @ other).abs() <= bound).all()

    same(y if bias is None else y - bias, rounded(x), rounded(weight).t())
    same(x.grad, rounded(by_y), rounded(weight))
    same(weight.grad, rounded(by_y).t(), rounded(x))
    if bias is not None:
        torch.testing.assert_close(bias.grad, by_y.sum((0, 1)))


@max_examples(40)
@given(configs(**ours), seeds)
def test_only_float32_is_rounded(config, seed):
    """A model in float64 has the same bits: tests of gradients can trust it, and so can whoever wants it."""
    found = []
    for dtype in (None, HALF):
        model, data = build(config, seed), make_batch(pairs(config, 4, seed))
        loss = summed_loss(model, data, 0.1, dtype)
        loss.backward()
        found.append([loss.detach(), *(weight.grad for weight in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("agreement", [0.0, 3.0])
@pytest.mark.parametrize("listened", [False, True])
def test_a_model_learns_nearly_the_same(agreement, listened):
    """The gradient of all weights together points where float32's does; fused and in the open."""
    shape = {"d_model": 64, "n_heads": 4, "d_ff": 96, "encoder_layers": 2, "decoder_layers": 2}
    for seed in range(10):
        config = ModelConfig(vocab_size=500, dropout=0.2, norm_first=seed % 2 == 0, output_bias=seed % 3 == 0, **shape)
        data = make_batch(pairs(config, 20, seed))
        found = []
        for dtype in (None, HALF):
            torch.manual_seed(seed)
            model = Transformer(config).train()
            if listened:
                model.logits.listeners.append(lambda x: x)
            torch.manual_seed(seed)
            loss = TrainingLoss(model, 0.1, dtype, agreement)(data)
            loss.backward()
            found.append((loss.item(), torch.cat([weight.grad.flatten() for weight in model.parameters()])))
        (exact, wanted), (rounded, gradient) = found
        assert rounded == pytest.approx(exact, rel=0.01)
        assert F.cosine_similarity(gradient, wanted, dim=0) > 0.998  # autocast, too, comes to 0.999 and more
        assert not torch.equal(gradient, wanted)


def test_what_was_chosen_is_known_to_the_run():
    assert chosen_dtype("float32", CPU) is None
    assert chosen_dtype("bfloat16", CPU) == HALF
    assert chosen_dtype("auto", CPU) in (None, HALF)
    assert what_bits_depend_on(1, CPU, HALF)["products"] == "bfloat16"
    assert what_bits_depend_on(1, CPU, None)["products"] == "float32"
