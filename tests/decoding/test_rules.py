"""What may come next, by the rules alone: no model is asked."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding.rules import Request, occurs, overlap, repeating, rules_for
from glassformer.decoding.search_settings import Beam
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
def test_whoever_keeps_to_the_rules_keeps_every_promise(length, prefix, phrases, no_repeat, shortest, extra, seed):
    """Any walk along allowed tokens, however foolish, ends in time with everything that was asked for."""
    how = Beam(max_length_ratio=1.0, max_length_extra=extra, min_length_ratio=shortest, no_repeat=no_repeat)
    rules = rules_for(Request([1] * length, prefix, phrases), EOS, how, most=None)
    chance = random.Random(seed)
    written: list[int] = []
    while EOS not in written:
        choice = rules.choice(len(written), written)
        allowed = list(choice.only) or [token for token in range(5) if token not in choice.never] or [EOS]
        written.append(chance.choice(allowed))
    assert len(written) <= rules.limit <= length + extra + len(prefix) + sum(map(len, phrases))
    assert tuple(written[: len(prefix)]) == prefix
    for wanted in phrases:
        assert occurs(wanted, written)
    if not (prefix or phrases or no_repeat):
        assert len(written) - 1 >= min(int(shortest * length), rules.limit - 1)
    if no_repeat and not (prefix or phrases):
        runs = [tuple(written[i : i + no_repeat]) for i in range(len(written) - no_repeat + 1)]
        assert len(set(runs)) == len(runs)


@given(tokens, st.integers(1, 3), st.integers(1, 4))
def test_a_token_repeats_exactly_when_its_run_was_there_before(written, size, token):
    run = [*written[len(written) - size + 1 :], token] if len(written) >= size - 1 else None
    assert (token in repeating(written, size)) == (run is not None and len(run) == size and occurs(run, written))


@given(tokens, phrase)
def test_overlap_is_the_longest_beginning_at_the_end(written, wanted):
    size = overlap(written, wanted)
    assert size < len(wanted)
    fitting = [n for n in range(len(wanted)) if n <= len(written) and written[len(written) - n :] == list(wanted[:n])]
    assert size == max(fitting)


def test_what_cannot_be_forced_is_refused():
    how = Beam()
    with pytest.raises(InputError, match="end of sentence cannot stand in a forced"):
        rules_for(Request([1], prefix=(3, EOS)), EOS, how, None)
    with pytest.raises(InputError, match="cannot be empty"):
        rules_for(Request([1], phrases=((),)), EOS, how, None)
    with pytest.raises(InputError, match="5 forced tokens do not fit into the 5"):
        rules_for(Request([1], prefix=(1, 2), phrases=((3, 4, 1),)), EOS, how, most=5)
