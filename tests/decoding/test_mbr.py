"""The most agreeable target is the one that agrees most, by the definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import sentence_chrf as sacrebleus

from glassformer.decoding.mbr import most_agreeable
from glassformer.evaluation import sentence_chrf

texts = st.text(st.sampled_from("abc dé"), max_size=15)


@given(texts, texts)
def test_our_chrf_is_sacrebleus(one, other):
    assert sentence_chrf(one, other) == pytest.approx(sacrebleus(one, [other]).score)


@given(st.lists(texts, min_size=1, max_size=8))
def test_the_most_agreeable_agrees_most(candidates):
    means = [sum(sentence_chrf(one, other) for other in candidates) for one in candidates]
    chosen = most_agreeable(candidates, sentence_chrf)
    assert means[chosen] == pytest.approx(max(means))


def test_what_comes_often_counts_often():
    assert most_agreeable(["cat", "dog", "dog"], sentence_chrf) == 1
