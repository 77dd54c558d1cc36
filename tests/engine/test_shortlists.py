"""Vocabulary shortlists: the C engine's searches are those of the plain model with all other tokens masked."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, Shortlist, search
from glassformer.decoding.vocabulary_shortlist import MaskedStepModel, ShortlistMeasurement
from glassformer.engine import EngineOptions, open_engine
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.reduced_precision import to_precision
from glassformer.engine.shortlist_file import parse_shortlist, shortlist_bytes
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import GlassformerError, InputError
from tests.decoding.test_search_on_models import lively, texts_of
from tests.engine.test_native_model import WithoutNativeSearch, beams, precisions, short
from tests.engine.test_wrong_calls import session, small
from tests.examples import max_examples, seeded_random
from tests.interop.mutations import MUTATIONS
from tests.interop.test_marian_file import mutated
from tests.models import configs, seeds

compiled = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
searches = st.sampled_from([Beam(size=3, n_best=2, **short), Beam.greedy(), Sample(n_best=2, **short)])


def random_shortlist(config, seed, most=4):
    """Up to `most` target tokens for each source token, and two that are always there."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(0, most + 1, config.source_vocab_size)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    targets = generator.integers(0, config.vocab_size, offsets[-1]).astype(np.int32)
    always = generator.integers(0, config.vocab_size, 2).astype(np.int32)
    return Shortlist(always, offsets, targets, config.vocab_size, config.share_embeddings)


def whole_vocabulary(config):
    every = np.arange(config.vocab_size, dtype=np.int32)
    return Shortlist(every, np.zeros(config.source_vocab_size + 1, dtype=np.int32), every[:0], config.vocab_size, False)


def native(model, precision="float32", shortlist=None):
    return NativeStepModel(model, library(), precision, shortlist)


def model_and_requests(config, seed, more=1):
    return lively(config, seed).float(), [Request(text) for i in range(more) for text in texts_of(config, seed + i)]


@compiled
@max_examples(200)
@given(configs(), seeds, precisions, searches)
def test_a_list_of_all_tokens_changes_nothing(config, seed, precision, settings):
    model, requests = model_and_requests(config, seed)
    restricted = search(native(model, precision, whole_vocabulary(config)), requests, settings)
    assert restricted == search(native(model, precision), requests, settings)


@compiled
@max_examples(300)
@given(configs(), seeds, precisions, st.randoms(), searches)
def test_results_are_bitwise_independent_of_the_lists_of_neighbours(config, seed, precision, generator, settings):
    model, requests = model_and_requests(config, seed, more=6)
    shortlist = random_shortlist(config, seed)
    alone = [search(native(model, precision, shortlist), [request], settings)[0] for request in requests]
    order = list(range(len(requests)))
    generator.shuffle(order)
    step_model = native(model, precision, shortlist)
    for limits in (BatchLimits(sentences=2), BatchLimits(sentences=11, workers=2), BatchLimits(positions=60)):
        together = search(step_model, [requests[i] for i in order], settings, limits)
        assert [together[order.index(i)] for i in range(len(requests))] == alone


@compiled
@max_examples(300)
@given(configs(), seeds, beams, st.data())
def test_the_native_search_is_bitwise_the_stepwise_search(config, seed, settings, data):
    step_model = native(lively(config, seed).float(), shortlist=random_shortlist(config, seed))
    words = [token for token in range(config.vocab_size) if token not in (config.pad_id, config.eos_id)]
    some_words = st.lists(st.sampled_from(words), max_size=3)
    requests = [Request(text, prefix=tuple(data.draw(some_words))) for text in texts_of(config, seed)]
    settings = settings.model_copy(update={"suppress": tuple(set(data.draw(some_words)))})
    results = search(step_model, requests, settings)
    assert results == search(WithoutNativeSearch(step_model), requests, settings)
    for request, n_best in zip(requests, results, strict=True):
        allowed = set(step_model.shortlist.tokens(request, config.eos_id).tolist())
        assert all(set(hypothesis.tokens) <= allowed for hypothesis in n_best)
        assert all(tuple(hypothesis.tokens[: len(request.prefix)]) == request.prefix for hypothesis in n_best)


@compiled
@max_examples(200)
@given(configs(d_model=12, n_heads=3, d_head=4), seeds, searches)
def test_hypotheses_are_those_of_the_plain_model_with_other_tokens_masked(config, seed, settings):
    model, requests = model_and_requests(config, seed)
    shortlist = random_shortlist(config, seed)
    plain = search(MaskedStepModel(PlainStepModel(model), shortlist), requests, settings)
    for one, other in zip(search(native(model, shortlist=shortlist), requests, settings), plain, strict=True):
        for ours, theirs in zip(one[:1], other[:1], strict=True):
            if ours.tokens == theirs.tokens:
                assert ours.log_probabilities == pytest.approx(theirs.log_probabilities, abs=1e-3)
            else:  # a tie, broken by rounding
                assert isinstance(settings, Sample) or ours.score == pytest.approx(theirs.score, abs=1e-3)


@compiled
@max_examples(200)
@given(configs(), seeds, precisions, st.integers(0, 9))
def test_a_greedy_answer_within_its_list_is_the_same(config, seed, precision, most):
    model, requests = model_and_requests(config, seed)
    shortlist = random_shortlist(config, seed, most)
    unrestricted = search(native(model, precision), requests, Beam.greedy())
    restricted = search(native(model, precision, shortlist), requests, Beam.greedy())
    for request, one, other in zip(requests, unrestricted, restricted, strict=True):
        if set(one[0].tokens) <= set(shortlist.tokens(request, config.eos_id).tolist()):
            assert one[0].tokens == other[0].tokens
            assert other[0].score >= one[0].score - 1e-4  # normalised over fewer tokens


@max_examples(100)
@given(configs(d_model=12, n_heads=3, d_head=4), seeds, st.data())
def test_constraints_reach_every_token(config, seed, data):
    model, requests = model_and_requests(config, seed)
    words = [token for token in range(config.vocab_size) if token not in (config.pad_id, config.eos_id)]
    phrase = tuple(data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3)))
    prefix = tuple(data.draw(st.lists(st.sampled_from(words), max_size=2)))
    engine = open_engine([model], EngineOptions(shortlist=True), shortlist=random_shortlist(config, seed))
    for request in requests:
        for settings in (Beam(size=2, no_repeat=2), Sample()):
            [n_best] = engine.search([Request(request.source, prefix, (phrase,))], settings)
            tokens = tuple(n_best[0].tokens)
            assert tokens[: len(prefix)] == prefix
            assert any(tokens[i : i + len(phrase)] == phrase for i in range(len(tokens)))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_log_probabilities_are_normalised_over_the_list(precision):
    model = small()
    shortlist = random_shortlist(model.config, 1)
    request = Request([5, 6, 2])
    step_model = MaskedStepModel(PlainStepModel(to_precision(model, precision)), shortlist)
    models = [step_model, native(model, precision, shortlist)] if library() else [step_model]
    for each in models:
        opened = each.open(2)
        opened.join([request.source], [9])
        opened.restrict([shortlist.tokens(request, 2)])
        prediction = opened.step([1], 40, ())
        assert torch.tensor([log_p for _, log_p in prediction.candidates[0]]).exp().sum() == pytest.approx(1, abs=1e-5)
        likely = [token for token, log_p in prediction.candidates[0] if log_p > -torch.inf]
        assert sorted(likely) == shortlist.tokens(request, 2).tolist()


@compiled
@pytest.mark.parametrize(
    "lists",
    [[], [[]], [[2, 40]], [[-1, 2]], [[5, 2]], [[2, 2]], [[2, 3]] * 3],
    ids=["none", "empty", "unknown", "negative", "unsorted", "repeated", "too-many"],
)
def test_wrong_lists_are_refused(lists):
    opened, other = session(), session()
    with pytest.raises(InputError, match="Each sentence that joined last needs a list"):
        opened.restrict([np.array(tokens, dtype=np.int32) for tokens in lists])
    assert opened.step([1, 1], 0, ()).logits.tolist() == other.step([1, 1], 0, ()).logits.tolist()


@compiled
def test_a_list_for_some_sentences_only_is_refused():
    opened = session()
    opened.restrict([np.array([2, 5], dtype=np.int32)])
    with pytest.raises(InputError, match="in a batch either all sentences have one or none"):
        opened.step([1, 1], 2, ())


def measurement(cost):
    shared = {"unrestricted_bleu": 40.0, "has_references": True, "identical": 9, "speedup": 1.5, "tokens": 90.0}
    return ShortlistMeasurement(sentences=10, bleu=40.0 - cost, **shared)


@pytest.mark.parametrize(("cost", "is_used"), [(None, False), (0.2, True), (-1.0, True), (0.4, False)])
def test_a_shortlist_is_used_by_default_if_its_measured_cost_is_small(cost, is_used):
    model = small()
    shortlist = random_shortlist(model.config, 0)
    measured = Shortlist(**vars(shortlist) | {"measurement": None if cost is None else measurement(cost)})
    for option, expected in ((None, is_used), (True, True), (False, False)):
        engine = open_engine([model], EngineOptions(shortlist=option), shortlist=measured)
        assert (getattr(engine.step_model, "shortlist", None) is not None) == expected
    ensemble = open_engine([model, model], EngineOptions(), shortlist=measured)
    assert isinstance(ensemble.step_model, Ensemble)


def test_an_impossible_shortlist_is_refused():
    model, options = small(), EngineOptions(shortlist=True)
    with pytest.raises(InputError, match="The model has no shortlist"):
        open_engine([model], options)
    with pytest.raises(InputError, match="An ensemble cannot use a shortlist"):
        open_engine([model, model], options, shortlist=random_shortlist(model.config, 0))


@max_examples(50)
@given(configs(), seeds, st.booleans())
def test_a_file_has_the_same_shortlist(config, seed, is_measured):
    shortlist = random_shortlist(config, seed)
    measured = Shortlist(**vars(shortlist) | {"measurement": measurement(0.25) if is_measured else None})
    again = parse_shortlist(shortlist_bytes(measured), config.source_vocab_size, config.vocab_size)
    assert again.measurement == measured.measurement
    for text in texts_of(config, seed):
        request = Request(text, prefix=(3,))
        assert again.tokens(request, 2).tolist() == shortlist.tokens(request, 2).tolist()


def test_damaged_files_give_our_errors_and_nothing_else():
    config = small().config
    good = shortlist_bytes(Shortlist(**vars(random_shortlist(config, 0)) | {"measurement": measurement(0.1)}))
    chance, refused = seeded_random("shortlist"), 0
    for _ in range(MUTATIONS // 4):
        try:
            shortlist = parse_shortlist(mutated(good, chance), config.source_vocab_size, config.vocab_size)
            shortlist.tokens(Request(range(config.source_vocab_size)), 2)
        except GlassformerError:
            refused += 1
    assert refused > MUTATIONS // 16
