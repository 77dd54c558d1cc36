"""Mixed precision: matrix products of rounded factors, forward and backward, and nothing else is rounded."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.data.padded_batch import make_batch
from glassformer.model import ModelConfig, Transformer
from glassformer.training.loss import TrainingLoss, summed_loss
from glassformer.training.mixed_precision import chosen_dtype, matmul_in
from glassformer.training.run_resources import numerical_environment
from tests.examples import max_examples
from tests.models import build, configs, seeds
from tests.training.test_loss import OUR_IDS, pairs

CPU = torch.device("cpu")
HALF = torch.bfloat16
STEP = 2**-7  # one unit in the last place of bfloat16, relative to the value


@max_examples(100)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40), st.booleans(), seeds)
def test_a_product_is_that_of_rounded_numbers(rows, inputs, outputs, biased, seed):
    """Against float64 on the rounded factors; the result is rounded too, to within one step of the sum's magnitude."""
    torch.manual_seed(seed)
    x = torch.randn(2, rows, inputs, requires_grad=True)
    weight = torch.randn(outputs, inputs, requires_grad=True)
    bias = torch.randn(outputs, requires_grad=True) if biased else None
    grad_y = torch.randn(2, rows, outputs)
    with matmul_in(HALF, CPU):
        y = F.linear(x, weight, bias)
    y.backward(grad_y)  # outside the context, as in a training step

    def rounded(a: torch.Tensor) -> torch.Tensor:
        return a.detach().to(HALF).double().flatten(0, -2)

    def assert_product(result: torch.Tensor | None, left: torch.Tensor, right: torch.Tensor) -> None:
        assert result is not None
        assert result.dtype == torch.float32
        bound = STEP * (left.abs() @ right.abs()) + 1e-30
        assert ((result.detach().flatten(0, -2).double() - left @ right).abs() <= bound).all()

    assert_product(y if bias is None else y - bias, rounded(x), rounded(weight).t())
    assert_product(x.grad, rounded(grad_y), rounded(weight))
    assert_product(weight.grad, rounded(grad_y).t(), rounded(x))
    if bias is not None:
        torch.testing.assert_close(bias.grad, grad_y.sum((0, 1)))


@max_examples(40)
@given(configs(**OUR_IDS), seeds)
def test_only_float32_is_rounded(config, seed):
    """A model in float64 keeps the same bits, so gradient tests and users of float64 can rely on it."""
    results = []
    for dtype in (None, HALF):
        model, data = build(config, seed), make_batch(pairs(config, 4, seed))
        loss = summed_loss(model, data, 0.1, dtype)
        loss.backward()
        results.append([loss.detach(), *(weight.grad for weight in model.parameters())])
    assert all(torch.equal(exact, mixed) for exact, mixed in zip(*results, strict=True))


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
@pytest.mark.parametrize("with_listener", [False, True])
def test_a_model_learns_nearly_the_same(r_drop, with_listener):
    """The gradient of all weights points in nearly the same direction as in float32; fused loss and explicit."""
    shape = {"d_model": 64, "n_heads": 4, "d_ff": 96, "encoder_layers": 2, "decoder_layers": 2}
    for seed in range(10):
        config = ModelConfig(vocab_size=500, dropout=0.2, norm_first=seed % 2 == 0, output_bias=seed % 3 == 0, **shape)
        data = make_batch(pairs(config, 20, seed))
        results = []
        for dtype in (None, HALF):
            torch.manual_seed(seed)
            model = Transformer(config).train()
            if with_listener:
                model.logits.listeners.append(lambda x: x)
            torch.manual_seed(seed)
            loss = TrainingLoss(model, 0.1, dtype, r_drop)(data)
            loss.backward()
            results.append((loss.item(), torch.cat([weight.grad.flatten() for weight in model.parameters()])))
        (exact_loss, exact), (loss_value, gradient) = results
        assert loss_value == pytest.approx(exact_loss, rel=0.01)
        assert F.cosine_similarity(gradient, exact, dim=0) > 0.998  # autocast also reaches 0.999 and more
        assert not torch.equal(gradient, exact)


def test_the_chosen_dtype_is_recorded_with_the_run():
    assert chosen_dtype("float32", CPU) is None
    assert chosen_dtype("bfloat16", CPU) == HALF
    assert chosen_dtype("auto", CPU) in (None, HALF)
    assert numerical_environment(1, CPU, HALF)["products"] == "bfloat16"
    assert numerical_environment(1, CPU, None)["products"] == "float32"
