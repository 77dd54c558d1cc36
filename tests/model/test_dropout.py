"""Dropout: the right share, scale and gradient, reproducible from torch's seed."""

import pytest
import torch

from glassformer.model.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1000, 101), (3, 5, 7001)])
def test_it_zeroes_the_right_share_and_keeps_the_mean(p, shape):
    torch.manual_seed(1)
    y = dropout(torch.ones(shape), p, training=True)
    share = (y == 0).float().mean().item()
    deviation = (p * (1 - p) / y.numel()) ** 0.5
    assert abs(share - p) < 5 * deviation + 1 / 2**16
    assert y.max().item() == pytest.approx(1 / (1 - p), rel=1e-3)


def test_elements_fall_independently():
    """Neighbours share a 64-bit draw; they must still be uncorrelated, at distances of 1 to 8."""
    torch.manual_seed(2)
    mask = (dropout(torch.ones(400_000), 0.5, training=True) > 0).double() - 0.5
    for distance in range(1, 9):
        correlation = (mask[:-distance] * mask[distance:]).mean().item() / 0.25
        assert abs(correlation) < 0.01, distance


def test_the_seed_decides():
    x = torch.rand(50, 50)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(dropout(x, 0.2, training=True))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_gradient_is_the_mask():
    x = torch.rand(40, 40, requires_grad=True)
    torch.manual_seed(5)
    y = dropout(x, 0.3, training=True)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


def test_without_training_nothing_happens():
    x = torch.rand(3, 3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
