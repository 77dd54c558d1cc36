"""Invariants of search, tested on step models with arbitrary (random) logits."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, SearchTask, search
from glassformer.decoding.continuous_batching import RunningBatch
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.rules import occurs
from glassformer.decoding.work_queue import WorkQueue
from glassformer.errors import InputError
from tests.decoding.table_models import BOS, EOS, PAD, Table
from tests.examples import max_examples

MAX_EXAMPLES = 300
tables = st.builds(Table, st.integers(0, 2**32), st.integers(4, 9), st.floats(0.3, 5))
sources = st.lists(st.integers(3, 9), min_size=1, max_size=6)
batches = st.lists(sources, min_size=1, max_size=5)
penalties = st.sampled_from([0.0, 0.6, 1.0, 1.7])
batch_limits = st.builds(
    BatchLimits,
    st.sampled_from([1, 50, 10_000]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 4]),
    st.integers(1, 3),
)
short = {"max_length_ratio": 1.0, "max_length_extra": 3}


def tokens_of(results):
    return [[hypothesis.tokens for hypothesis in n_best] for n_best in results]


def searched(table, texts, settings, **options):
    return search(table, [Request(text) for text in texts], settings, **options)


@max_examples(MAX_EXAMPLES)
@given(tables, batches, penalties, st.integers(1, 6), st.integers(1, 5))
def test_hypotheses_are_sorted_distinct_finished_and_have_the_models_log_probabilities(
    table, texts, penalty, size, n_best
):
    settings = Beam(size=size, n_best=n_best, length_penalty=penalty, **short)
    for text, hypotheses in zip(texts, searched(table, texts, settings), strict=True):
        assert 1 <= len(hypotheses) <= n_best
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert hypothesis.tokens[-1] == EOS
            assert not {EOS, PAD} & set(hypothesis.tokens[:-1])
            assert len(hypothesis.tokens) <= len(text) + 3
            assert hypothesis.log_probabilities == pytest.approx(table.log_ps(text, hypothesis.tokens))
            expected = penalised(hypothesis.log_probability, len(hypothesis.tokens), penalty)
            assert hypothesis.score == pytest.approx(expected)


@max_examples(MAX_EXAMPLES)
@given(tables, batches, penalties)
def test_a_beam_of_one_is_greedy(table, texts, penalty):
    settings = Beam(size=1, length_penalty=penalty, **short)
    for text, [hypothesis] in zip(texts, searched(table, texts, settings), strict=True):
        written: list[int] = []
        while EOS not in written:
            logits = table.logits((*text, -1, BOS, *written))
            logits[PAD] = -torch.inf
            written.append(logits.argmax().item() if len(written) < len(text) + 2 else EOS)
        assert hypothesis.tokens == written


@max_examples(MAX_EXAMPLES)
@given(tables, batches, penalties, st.integers(2, 6))
def test_no_beam_is_worse_than_greedy(table, texts, penalty, size):
    greedy = searched(table, texts, Beam(size=1, length_penalty=penalty, **short))
    wide = searched(table, texts, Beam(size=size, length_penalty=penalty, **short))
    for [greedy_best], [wide_best] in zip(greedy, wide, strict=True):
        assert wide_best.score >= greedy_best.score - 1e-12


@max_examples(MAX_EXAMPLES)
@given(tables, sources, penalties, st.integers(1, 4))
def test_a_beam_large_enough_is_exhaustive(table, text, penalty, n_best):
    table.vocab_size = 5  # padding, start, end and two others: three can be generated before the end
    settings = Beam(size=3**3, n_best=n_best, length_penalty=penalty, max_length_ratio=0.0, max_length_extra=4)
    [hypotheses] = searched(table, [text], settings)
    all_targets = [(*middle, EOS) for length in range(4) for middle in itertools.product([BOS, 3, 4], repeat=length)]
    scores = [penalised(sum(table.log_ps(text, tokens)), len(tokens), penalty) for tokens in all_targets]
    assert [h.score for h in hypotheses] == pytest.approx(sorted(scores, reverse=True)[:n_best])


@max_examples(MAX_EXAMPLES)
@given(tables, batches, penalties, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_the_first_of_an_n_best_list_is_the_single_best(table, texts, penalty, size, n_best, keep_greedy):
    n_best = min(n_best, size)
    settings = Beam(size=size, length_penalty=penalty, keep_greedy=keep_greedy, **short)
    single = searched(table, texts, settings)
    several = searched(table, texts, settings.model_copy(update={"n_best": n_best}))
    assert [hypotheses[:1] for hypotheses in several] == single


@max_examples(MAX_EXAMPLES)
@given(tables, batches, st.randoms(), batch_limits, st.booleans(), st.booleans())
def test_results_do_not_depend_on_batch_composition_or_order(table, texts, generator, limits, sample, refills):
    table.refills = refills
    settings = Sample(n_best=2, **short) if sample else Beam(size=3, n_best=2, **short)
    together = searched(table, texts, settings)
    order = list(range(len(texts)))
    generator.shuffle(order)
    shuffled = searched(table, [texts[i] for i in order], settings, limits=limits)
    assert [tokens_of(shuffled)[order.index(i)] for i in range(len(texts))] == tokens_of(together)


@max_examples(MAX_EXAMPLES)
@given(
    tables,
    batches,
    st.lists(st.integers(3, 3), max_size=2),
    st.lists(st.lists(st.integers(1, 3).filter(lambda t: t != EOS), min_size=1, max_size=3), max_size=2),
    st.one_of(st.builds(Beam, size=st.integers(1, 4), no_repeat=st.integers(0, 3)), st.just(Sample(n_best=3))),
)
def test_forced_prefixes_and_phrases_always_occur(table, texts, prefix, phrases, settings):
    settings = settings.model_copy(update={"suppress": (3,), "n_best": 2})
    requests = [Request(text, tuple(prefix), tuple(map(tuple, phrases))) for text in texts]
    for hypotheses in search(table, requests, settings):
        assert hypotheses
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            for phrase in phrases:
                assert occurs(phrase, hypothesis.tokens)


@max_examples(MAX_EXAMPLES)
@given(tables, batches, st.integers(1, 3), st.floats(0, 1), st.booleans())
def test_forbidden_tokens_never_occur(table, texts, no_repeat, min_ratio, sample):
    table.vocab_size = 9
    options = {"no_repeat": no_repeat, "min_length_ratio": min_ratio, "suppress": (BOS, 4), "n_best": 2, **short}
    settings = (Sample if sample else Beam)(**options)
    for text, hypotheses in zip(texts, searched(table, texts, settings), strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens
            assert not {BOS, PAD, 4} & set(tokens)
            ngrams = [tuple(tokens[i : i + no_repeat]) for i in range(len(tokens) - no_repeat + 1)]
            assert len(set(ngrams)) == len(ngrams)
            if no_repeat > 1:  # if no token may repeat, a small vocabulary may force an earlier end
                assert len(tokens) - 1 >= int(min_ratio * len(text))


@max_examples(MAX_EXAMPLES)
@given(tables, batches)
def test_diversity_does_not_change_log_probabilities(table, texts):
    settings = Beam(size=4, n_best=4, diversity=2.0)
    for text, hypotheses in zip(texts, searched(table, texts, settings), strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.log_probabilities == pytest.approx(table.log_ps(text, hypothesis.tokens))


@max_examples(50)
@given(tables, batches, st.integers(0, 100))
def test_an_ensemble_takes_the_mean_of_its_probabilities(table, texts, seed):
    settings = Beam(size=3, **short)
    assert tokens_of(searched(Ensemble([table, table]), texts, settings)) == tokens_of(searched(table, texts, settings))
    other = Table(seed, table.vocab_size)
    for text, [best] in zip(texts, searched(Ensemble([table, other]), texts, settings), strict=True):
        p, q = (torch.tensor(model.log_ps(text, best.tokens)).exp() for model in (table, other))
        assert best.log_probabilities == pytest.approx(((p + q) / 2).log().tolist(), abs=1e-5)


def test_models_with_different_vocabularies_form_no_ensemble():
    with pytest.raises(InputError, match="must share one vocabulary; these have vocab_size = 7 and 8"):
        Ensemble([Table(0), Table(0, vocab_size=8)])


def test_impossible_requests_are_refused():
    with pytest.raises(InputError, match="Token 2 cannot be suppressed: it is the end"):
        searched(Table(0), [[3]], Beam(suppress=(EOS,)))
    with pytest.raises(InputError, match="forced token 99 is not in the model's vocabulary"):
        search(Table(0), [Request([3], prefix=(99,))], Beam())
    with pytest.raises(InputError, match="source has 9 tokens, but this model has only 8 positions"):
        searched(Table(0, max_tokens=8), [[3] * 9], Beam())
    damaged = Table(0, sharp=float("nan"))
    for settings in (Beam(), Beam.greedy(), Sample()):
        with pytest.raises(InputError, match="not numbers"):
            searched(damaged, [[3]], settings)


class OneAtATime:
    """A batch search without a model: each step finishes one sentence, any of them."""

    def __init__(self, generator):
        self.generator, self.running = generator, []

    def join(self, tasks):
        self.running += [task.number for task in tasks]

    def advance(self):
        return [(self.running.pop(self.generator.randrange(len(self.running))), [])]


@max_examples(MAX_EXAMPLES)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
    st.builds(BatchLimits, st.integers(1, 200), st.sampled_from([None, 1, 3, 8]), st.sampled_from([None, 1, 5, 20])),
    st.booleans(),
    st.integers(1, 4),
    st.randoms(),
)
def test_a_worker_never_exceeds_its_batch_limits(costs, limits, refills, width, generator):
    tasks = [SearchTask(number, Request([3]), None, cost) for number, cost in enumerate(sorted(costs, reverse=True))]
    queue, taken = WorkQueue(tasks, 1), 0
    batch = RunningBatch(lambda: OneAtATime(generator), limits, refills, width)
    while taken < len(tasks):
        before = len(batch.tasks)
        taken += batch.fill(lambda fits: queue.take(0, fits, steal=not batch.tasks))
        running = [task.cost for task in batch.tasks.values()]
        assert before == len(running) or refills or not before, "a sentence joined a running batch"
        assert running, "the worker is idle, but tasks are waiting"
        positions = sum(running) if refills else len(running) * running[0]
        assert len(running) == 1 or positions <= limits.positions  # a single sentence may need more
        assert len(running) <= (limits.sentences or len(tasks))
        assert len(running) == 1 or len(running) * width <= (limits.rows or width * len(tasks))
        [(finished, _)] = batch.advance()
        assert finished.number not in batch.tasks
