"""Batch sampler: a pure function of seed, epoch and lengths; every sentence once; no batch over its budget."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import epoch_batches
from tests.examples import max_examples

lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=300).map(np.array)


def cost(lengths, batch) -> int:
    """Tokens of a batch, with padding."""
    return len(batch) * int(lengths[batch].max(axis=0).sum())


@max_examples(200)
@given(lengths, st.integers(1, 500), st.integers(0, 99), st.integers(0, 9))
def test_each_sentence_once_and_no_batch_over_its_budget(lengths, budget, seed, epoch):
    batches = epoch_batches(lengths, budget, seed, epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for batch in batches:
        assert cost(lengths, batch) <= budget or len(batch) == 1


@given(lengths, st.integers(0, 99), st.integers(0, 9))
def test_the_same_seed_and_epoch_give_the_same_batches(lengths, seed, epoch):
    """transformers PR#8878, OpenNMT-py#2006: after a resume the data must continue, not start over."""
    first, second = (epoch_batches(lengths, 200, seed, epoch) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_epochs_and_seeds_differ_in_order_and_in_grouping():
    sizes = np.random.default_rng(0).integers(3, 40, (5000, 2))
    plans = [epoch_batches(sizes, 1000, *which) for which in ((0, 0), (0, 1), (1, 0))]
    groups = [{frozenset(batch.tolist()) for batch in plan} for plan in plans]
    assert len(groups[0] & groups[1]) < len(groups[0]) / 10
    assert len(groups[0] & groups[2]) < len(groups[0]) / 10


def test_little_is_wasted_on_padding():
    """Lengths as in real text, similar on both sides: at most one token in ten is padding."""
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(2.8, 0.5, 30_000), 2, 200).astype(int)
    target = np.clip(source * random.normal(1.05, 0.12, 30_000), 2, 220).astype(int)
    sizes = np.stack((source, target), axis=1)
    batches = epoch_batches(sizes, 4096, seed=1, epoch=0)
    assert sizes.sum() / sum(cost(sizes, batch) for batch in batches) > 0.9
