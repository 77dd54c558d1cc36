"""Sampling draws by probability, respects its filters, and is reproducible."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import Request, Sample, search
from glassformer.decoding.next_tokens import filtered, inverse_cdf
from tests.decoding.table_models import Table
from tests.examples import max_examples

logits = st.lists(st.floats(-8, 8), min_size=2, max_size=12).map(lambda row: np.array([row]))


def softmax(row):
    return torch.from_numpy(row).softmax(-1).numpy()


@given(logits)
def test_without_options_nothing_is_filtered(row):
    assert np.allclose(filtered(row, Sample()), softmax(row))


@max_examples(300)
@given(logits, st.integers(0, 6), st.floats(0.05, 1), st.floats(0, 0.5))
def test_filters_keep_the_most_likely_tokens(row, top_k, top_p, epsilon):
    p = filtered(row, Sample())[0]
    kept = filtered(row, Sample(top_k=top_k, top_p=top_p, epsilon=epsilon))[0]
    assert kept[p.argmax()] == p.max()
    assert ((kept == 0) | (kept == p)).all()
    assert (kept > 0).sum() <= (top_k or len(p))
    for token in range(len(p)):
        likelier = p[p > p[token]].sum().item()
        if kept[token] > 0 and p[token] < p.max():
            assert p[token] >= epsilon
            assert likelier < top_p + 1e-12


@given(logits, st.floats(0, 1, exclude_max=True))
def test_inverse_cdf_finds_the_token_of_a_uniform_number(row, uniform):
    p = softmax(row)
    [token] = inverse_cdf(p, np.array([uniform])).tolist()
    assert p[0, :token].sum().item() <= uniform + 1e-9
    assert p[0, : token + 1].sum().item() >= uniform - 1e-9


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_they_are_likely(temperature):
    table = Table(seed=3, vocab_size=6, sharp=1.0)
    settings = Sample(n_best=1000, temperature=temperature, seed=1)
    samples = [
        h.tokens[0]
        for seed in range(8)
        for h in search(table, [Request([5])], settings.model_copy(update={"seed": seed}))[0]
    ]
    shares = torch.bincount(torch.tensor(samples), minlength=6) / len(samples)
    expected = table.logits((5, -1, 1))
    expected[0] = -torch.inf  # padding is never generated
    # Eight thousand draws: four standard deviations of a share are at most 0.022.
    assert shares.tolist() == pytest.approx((expected / temperature).softmax(-1).tolist(), abs=0.022)


def test_the_same_seed_draws_the_same_and_another_draws_others():
    table, text = Table(seed=5, vocab_size=9), [Request([3, 4, 5])]
    [one], [again], [other] = (search(table, text, Sample(n_best=5, seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert len({tuple(h.tokens) for h in one}) > 1
