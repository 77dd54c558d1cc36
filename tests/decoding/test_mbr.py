"""Minimum Bayes risk: the chosen target has the highest mean similarity, by definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import sentence_chrf as sacrebleu_chrf

from glassformer.decoding.mbr import mbr_index
from glassformer.evaluation import sentence_chrf

texts = st.text(st.sampled_from("abc dé"), max_size=15)


@given(texts, texts)
def test_our_chrf_is_sacrebleus(hypothesis, reference):
    expected = sacrebleu_chrf(hypothesis, [reference]).score
    assert sentence_chrf(hypothesis, reference) == pytest.approx(expected)


@given(st.lists(texts, min_size=1, max_size=8))
def test_the_chosen_candidate_has_the_highest_mean_similarity(candidates):
    sums = [sum(sentence_chrf(candidate, other) for other in candidates) for candidate in candidates]
    chosen = mbr_index(candidates, sentence_chrf)
    assert sums[chosen] == pytest.approx(max(sums))


def test_duplicates_are_weighted_by_their_number():
    assert mbr_index(["cat", "dog", "dog"], sentence_chrf) == 1
