"""Learning-rate schedules: warm-up, peak and decay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.training import learning_rate

DECAYS = ["inverse-sqrt", "cosine", "linear", "constant"]


@given(
    st.sampled_from(DECAYS), st.integers(0, 50), st.integers(1, 200), st.floats(1e-6, 1, allow_nan=False)
)  # fmt: skip
def test_it_rises_to_its_peak_never_exceeds_it_and_then_only_falls(decay, warmup, more, peak):
    total = warmup + more
    rates = [learning_rate(update, peak, warmup, total, decay) for update in range(1, total + 20)]
    assert all(0 <= rate <= peak * (1 + 1e-12) for rate in rates)
    rising, falling = rates[:warmup], rates[warmup:]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    if warmup:
        assert rising[-1] == pytest.approx(peak)
    assert rates[0] > 0, "the first update must have an effect"


def test_known_points():
    assert learning_rate(400, 1.0, 100, 0, "inverse-sqrt") == pytest.approx(0.5)
    assert learning_rate(51, 1.0, 0, 100, "linear") == pytest.approx(50 / 101)
    assert learning_rate(101, 1.0, 0, 100, "linear") == 0
    assert learning_rate(101, 1.0, 0, 100, "cosine") == 0
    assert learning_rate(99, 1.0, 10, 100, "constant") == 1.0


def test_the_papers_formula_is_inverse_sqrt():
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), which peaks at (d_model · warmup)^-0.5."""
    d_model, warmup = 512, 4000
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, (d_model * warmup) ** -0.5, warmup, 0, "inverse-sqrt") == pytest.approx(expected)
