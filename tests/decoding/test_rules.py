"""The rules by themselves, without a model: which tokens may come next."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import Beam
from glassformer.decoding.rules import Request, occurs, overlap, repeating, rules_for
from glassformer.errors import InputError
from tests.examples import max_examples

EOS = 0
tokens = st.lists(st.integers(1, 4), max_size=12)
phrase = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@max_examples(500)
@given(
    st.integers(1, 8),
    st.lists(st.integers(1, 4), max_size=3).map(tuple),
    st.lists(phrase, max_size=3).map(tuple),
    st.integers(0, 3),
    st.floats(0, 2),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_any_sequence_of_allowed_tokens_satisfies_the_rules(length, prefix, phrases, no_repeat, min_ratio, extra, seed):
    """Any random walk along allowed tokens ends within the limit and meets all constraints."""
    settings = Beam(max_length_ratio=1.0, max_length_extra=extra, min_length_ratio=min_ratio, no_repeat=no_repeat)
    rules = rules_for(Request([1] * length, prefix, phrases), EOS, settings, most=None)
    generator = random.Random(seed)
    written: list[int] = []
    while EOS not in written:
        rule = rules.allowed_tokens(len(written), written)
        allowed = list(rule.only) or [token for token in range(5) if token not in rule.never] or [EOS]
        written.append(generator.choice(allowed))
    assert len(written) <= rules.limit <= length + extra + len(prefix) + sum(map(len, phrases))
    assert tuple(written[: len(prefix)]) == prefix
    for required in phrases:
        assert occurs(required, written)
    if not (prefix or phrases or no_repeat):
        assert len(written) - 1 >= min(int(min_ratio * length), rules.limit - 1)
    if no_repeat and not (prefix or phrases):
        ngrams = [tuple(written[i : i + no_repeat]) for i in range(len(written) - no_repeat + 1)]
        assert len(set(ngrams)) == len(ngrams)


@given(tokens, st.integers(1, 3), st.integers(1, 4))
def test_a_token_repeats_exactly_when_its_ngram_occurred_before(written, size, token):
    ngram = [*written[len(written) - size + 1 :], token] if len(written) >= size - 1 else None
    expected = ngram is not None and len(ngram) == size and occurs(ngram, written)
    assert (token in repeating(written, size)) == expected


@given(tokens, phrase)
def test_overlap_is_the_longest_prefix_of_the_phrase_at_the_end(written, required):
    size = overlap(written, required)
    assert size < len(required)
    matching = [
        n for n in range(len(required)) if n <= len(written) and written[len(written) - n :] == list(required[:n])
    ]
    assert size == max(matching)


def test_what_cannot_be_forced_is_refused():
    settings = Beam()
    with pytest.raises(InputError, match="forced prefix or phrase cannot contain the end-of-sentence token"):
        rules_for(Request([1], prefix=(3, EOS)), EOS, settings, None)
    with pytest.raises(InputError, match="forced phrase cannot be empty"):
        rules_for(Request([1], phrases=((),)), EOS, settings, None)
    too_many = "5 forced tokens and the end-of-sentence token do not fit into the 5 positions of this model"
    with pytest.raises(InputError, match=too_many):
        rules_for(Request([1], prefix=(1, 2), phrases=((3, 4, 1),)), EOS, settings, most=5)
