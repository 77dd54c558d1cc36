"""Laws of search, on models without a network: whatever they say next, search keeps its promises."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, SearchTask, search
from glassformer.decoding.continuous_batching import _joining
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.rules import occurs
from glassformer.decoding.work_queue import WorkQueue
from glassformer.errors import InputError
from tests.decoding.table_models import BOS, EOS, PAD, Table
from tests.examples import max_examples

HUNDREDS = 300
tables = st.builds(Table, st.integers(0, 2**32), st.integers(4, 9), st.floats(0.3, 5))
sources = st.lists(st.integers(3, 9), min_size=1, max_size=6)
batches = st.lists(sources, min_size=1, max_size=5)
penalties = st.sampled_from([0.0, 0.6, 1.0, 1.7])
loads = st.builds(
    BatchLimits,
    st.sampled_from([1, 50, 10_000]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 4]),
    st.integers(1, 3),
)
short = {"max_length_ratio": 1.0, "max_length_extra": 3}


def tokens_of(found):
    return [[hypothesis.tokens for hypothesis in own] for own in found]


def searched(table, texts, how, **more):
    return search(table, [Request(text) for text in texts], how, **more)


@max_examples(HUNDREDS)
@given(tables, batches, penalties, st.integers(1, 6), st.integers(1, 5))
def test_hypotheses_are_sorted_distinct_ended_and_the_models_own(table, texts, penalty, size, n_best):
    how = Beam(size=size, n_best=n_best, length_penalty=penalty, **short)
    for text, own in zip(texts, searched(table, texts, how), strict=True):
        assert 1 <= len(own) <= n_best
        assert [h.score for h in own] == sorted((h.score for h in own), reverse=True)
        assert len({tuple(h.tokens) for h in own}) == len(own)
        for hypothesis in own:
            assert hypothesis.tokens[-1] == EOS
            assert not {EOS, PAD} & set(hypothesis.tokens[:-1])
            assert len(hypothesis.tokens) <= len(text) + 3
            assert hypothesis.log_probabilities == pytest.approx(table.log_ps(text, hypothesis.tokens))
            expected = penalised(hypothesis.log_probability, len(hypothesis.tokens), penalty)
            assert hypothesis.score == pytest.approx(expected)


@max_examples(HUNDREDS)
@given(tables, batches, penalties)
def test_a_beam_of_one_is_greedy(table, texts, penalty):
    for text, [found] in zip(texts, searched(table, texts, Beam(size=1, length_penalty=penalty, **short)), strict=True):
        written: list[int] = []
        while EOS not in written:
            logits = table.logits((*text, -1, BOS, *written))
            logits[PAD] = -torch.inf
            written.append(logits.argmax().item() if len(written) < len(text) + 2 else EOS)
        assert found.tokens == written


@max_examples(HUNDREDS)
@given(tables, batches, penalties, st.integers(2, 6))
def test_no_beam_answers_worse_than_greedy(table, texts, penalty, size):
    greedy = searched(table, texts, Beam(size=1, length_penalty=penalty, **short))
    wide = searched(table, texts, Beam(size=size, length_penalty=penalty, **short))
    for [one], [other] in zip(greedy, wide, strict=True):
        assert other.score >= one.score - 1e-12


@max_examples(HUNDREDS)
@given(tables, sources, penalties, st.integers(1, 4))
def test_a_beam_large_enough_is_exhaustive(table, text, penalty, n_best):
    table.vocab_size = 5  # padding, start, end and two others: three tokens to write with
    how = Beam(size=3**3, n_best=n_best, length_penalty=penalty, max_length_ratio=0.0, max_length_extra=4)
    [found] = searched(table, [text], how)
    everything = [(*middle, EOS) for length in range(4) for middle in itertools.product([BOS, 3, 4], repeat=length)]
    scores = [penalised(sum(table.log_ps(text, tokens)), len(tokens), penalty) for tokens in everything]
    assert [h.score for h in found] == pytest.approx(sorted(scores, reverse=True)[:n_best])


@max_examples(HUNDREDS)
@given(tables, batches, penalties, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_the_first_of_several_is_the_one(table, texts, penalty, size, n_best, keep_greedy):
    n_best = min(n_best, size)
    how = Beam(size=size, length_penalty=penalty, keep_greedy=keep_greedy, **short)
    alone = searched(table, texts, how)
    several = searched(table, texts, how.model_copy(update={"n_best": n_best}))
    assert [own[:1] for own in several] == alone


@max_examples(HUNDREDS)
@given(tables, batches, st.randoms(), loads, st.booleans(), st.booleans())
def test_neighbours_and_places_do_not_matter(table, texts, chance, limits, draw, refills):
    table.refills = refills
    how = Sample(n_best=2, **short) if draw else Beam(size=3, n_best=2, **short)
    together = searched(table, texts, how)
    order = list(range(len(texts)))
    chance.shuffle(order)
    shuffled = searched(table, [texts[i] for i in order], how, limits=limits)
    assert [tokens_of(shuffled)[order.index(i)] for i in range(len(texts))] == tokens_of(together)


@max_examples(HUNDREDS)
@given(
    tables,
    batches,
    st.lists(st.integers(3, 3), max_size=2),
    st.lists(st.lists(st.integers(1, 3).filter(lambda t: t != EOS), min_size=1, max_size=3), max_size=2),
    st.one_of(st.builds(Beam, size=st.integers(1, 4), no_repeat=st.integers(0, 3)), st.just(Sample(n_best=3))),
)
def test_what_is_forced_always_comes(table, texts, prefix, phrases, how):
    how = how.model_copy(update={"suppress": (3,), "n_best": 2})
    wishes = [Request(text, tuple(prefix), tuple(map(tuple, phrases))) for text in texts]
    for own in search(table, wishes, how):
        assert own
        for hypothesis in own:
            assert hypothesis.tokens[: len(prefix)] == prefix
            for phrase in phrases:
                assert occurs(phrase, hypothesis.tokens)


@max_examples(HUNDREDS)
@given(tables, batches, st.integers(1, 3), st.floats(0, 1), st.booleans())
def test_what_is_forbidden_never_comes(table, texts, no_repeat, shortest, draw):
    table.vocab_size = 9
    options = {"no_repeat": no_repeat, "min_length_ratio": shortest, "suppress": (BOS, 4), "n_best": 2, **short}
    for text, own in zip(texts, searched(table, texts, (Sample if draw else Beam)(**options)), strict=True):
        for hypothesis in own:
            tokens = hypothesis.tokens
            assert not {BOS, PAD, 4} & set(tokens)
            runs = [tuple(tokens[i : i + no_repeat]) for i in range(len(tokens) - no_repeat + 1)]
            assert len(set(runs)) == len(runs)
            if no_repeat > 1:  # with few tokens, each of them once, it may have to end before
                assert len(tokens) - 1 >= int(shortest * len(text))


@max_examples(HUNDREDS)
@given(tables, batches)
def test_diversity_changes_the_company_and_no_score(table, texts):
    for text, own in zip(texts, searched(table, texts, Beam(size=4, n_best=4, diversity=2.0)), strict=True):
        for hypothesis in own:
            assert hypothesis.log_probabilities == pytest.approx(table.log_ps(text, hypothesis.tokens))


@max_examples(50)
@given(tables, batches, st.integers(0, 100))
def test_a_model_agrees_with_itself_and_an_ensemble_takes_the_mean(table, texts, seed):
    how = Beam(size=3, **short)
    assert tokens_of(searched(Ensemble([table, table]), texts, how)) == tokens_of(searched(table, texts, how))
    other = Table(seed, table.vocab_size)
    for text, [found] in zip(texts, searched(Ensemble([table, other]), texts, how), strict=True):
        one, two = (torch.tensor(each.log_ps(text, found.tokens)).exp() for each in (table, other))
        assert found.log_probabilities == pytest.approx(((one + two) / 2).log().tolist(), abs=1e-5)


def test_models_with_other_vocabularies_do_not_answer_together():
    with pytest.raises(InputError, match="share one vocabulary; these have vocab_size = 7 and 8"):
        Ensemble([Table(0), Table(0, vocab_size=8)])


def test_what_a_model_cannot_write_is_refused():
    with pytest.raises(InputError, match="Token 2 cannot be suppressed: it is the end"):
        searched(Table(0), [[3]], Beam(suppress=(EOS,)))
    with pytest.raises(InputError, match="forced token 99"):
        search(Table(0), [Request([3], prefix=(99,))], Beam())
    with pytest.raises(InputError, match="9 tokens is longer than the 8"):
        searched(Table(0, max_tokens=8), [[3] * 9], Beam())
    damaged = Table(0, sharp=float("nan"))
    for how in (Beam(), Beam.greedy(), Sample()):
        with pytest.raises(InputError, match="not numbers"):
            searched(damaged, [[3]], how)


@max_examples(HUNDREDS)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
    st.builds(BatchLimits, st.integers(1, 200), st.sampled_from([None, 1, 3, 8]), st.sampled_from([None, 1, 5, 20])),
    st.booleans(),
    st.integers(1, 4),
    st.randoms(),
)
def test_a_worker_never_has_more_under_way_than_it_may(costs, limits, refills, width, chance):
    tasks = [SearchTask(number, Request([3]), None, cost) for number, cost in enumerate(sorted(costs, reverse=True))]
    queue, under_way, taken = WorkQueue(tasks, 1), [], 0
    while taken < len(tasks):
        joining = _joining(queue, 0, list(under_way), refills, limits, width)
        taken += len(joining)
        under_way += [task.cost for task in joining]
        assert under_way, "nobody works, and somebody waits"
        remembered = sum(under_way) if refills else len(under_way) * under_way[0]
        assert len(under_way) == 1 or remembered <= limits.positions  # one alone may need more
        assert len(under_way) <= (limits.sentences or len(tasks))
        assert len(under_way) == 1 or len(under_way) * width <= (limits.rows or width * len(tasks))
        under_way.pop(chance.randrange(len(under_way)))
