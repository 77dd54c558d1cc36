"""Scores and attention of given targets in C: bitwise those of a search, up to rounding those of the PyTorch model."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer import load
from glassformer.builtin import street
from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, SearchBackend
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.reduced_precision import to_precision
from glassformer.engine.torch_step_model import PlainStepModel, score
from glassformer.errors import InputError
from glassformer.inspection import record
from glassformer.inspection.alignment.word_alignment import align
from tests.decoding.test_search_on_models import lively, texts_of
from tests.examples import max_examples
from tests.models import configs, seeds
from tests.rounding import float32_errors
from tests.small_translator import model as small_model

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
short = {"max_length_ratio": 0.5, "max_length_extra": 24}
precisions = st.sampled_from(["float32", "float16", "bfloat16", "int8"])
beams = st.sampled_from([Beam(size=3, n_best=2, **short), Beam(size=4, n_best=4, **short), Beam(size=1, **short)])
small_batches = BatchLimits(positions=60, workers=2)


def native(model, precision="float32"):
    return NativeStepModel(model, library(), precision)


def random_heads(config, seed):
    every = [(layer, head) for layer in range(config.decoder_layers) for head in range(config.n_heads)]
    chance = random.Random(seed)
    return tuple(chance.choices(every, k=chance.randint(1, 5)))  # also one head twice


def random_pairs(config, seed):
    """Sources and random targets, of lengths around the number of keys in a block."""
    chance = random.Random(seed)
    sources = texts_of(config, seed)
    words = [token for token in range(config.vocab_size) if token != config.pad_id]
    return sources, [[*chance.choices(words, k=chance.randint(0, 36)), config.eos_id] for _ in sources]


@max_examples(200)
@given(configs(), seeds, precisions, beams)
def test_scores_and_attention_are_bitwise_those_of_the_search(config, seed, precision, settings):
    step_model, heads = native(lively(config, seed).float(), precision), random_heads(config, seed)
    requests = [Request(text, heads=heads) for text in texts_of(config, seed)]
    n_best_lists = SearchBackend(step_model, BatchLimits(sentences=2)).search(requests, settings)
    found = [hypothesis for n_best in n_best_lists for hypothesis in n_best]
    sources = [request.source for request, n_best in zip(requests, n_best_lists, strict=True) for _ in n_best]
    targets = [hypothesis.tokens for hypothesis in found]
    backend = SearchBackend(step_model, small_batches)
    assert backend.score(sources, targets, settings.length_penalty) == found  # every number
    for hypothesis, weights in zip(found, backend.attention(sources, targets, heads), strict=True):
        assert np.array_equal(hypothesis.attention, weights)


@max_examples(200)
@given(configs(), seeds, precisions)
def test_results_are_bitwise_independent_of_the_other_pairs(config, seed, precision):
    step_model, heads = native(lively(config, seed).float(), precision), random_heads(config, seed)
    pairs = [list(zip(*random_pairs(config, seed + more), strict=True)) for more in range(3)]
    sources, targets = zip(*(pair for some in pairs for pair in some), strict=True)
    backend = SearchBackend(step_model)
    together = SearchBackend(step_model, small_batches).score(sources, targets), backend.score(sources, targets)
    attention = backend.attention(sources, targets, heads)
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = backend.score([source], [target])
        assert [results[i] for results in together] == alone * 2
        assert np.array_equal(backend.attention([source], [target], heads)[0], attention[i])


@max_examples(300)
@given(configs(), seeds)
@torch.no_grad()
def test_scores_and_attention_are_those_of_the_plain_model(config, seed):
    model, heads = lively(config, seed), random_heads(config, seed)
    sources, targets = random_pairs(config, seed)

    def results(model):
        """Computed pair by pair, with the taps of the model."""
        values = {"scores": [], "attention": []}
        for source, target in zip(sources, targets, strict=True):
            with record(model, "decoder.layers.*.cross_attention.weights") as recording:
                logits = model(torch.tensor([source]), torch.tensor([[config.bos_id, *target[:-1]]]))
            log_ps = logits.log_softmax(-1)[0]
            values["scores"].append(log_ps[range(len(target)), target])
            values["attention"] += [
                recording[f"decoder.layers.{layer}.cross_attention.weights"][0, head].flatten() for layer, head in heads
            ]
        return {name: torch.cat(parts) for name, parts in values.items()}

    exact, errors = results(model), float32_errors(results, model)
    backend = SearchBackend(native(model.float()))
    scores = [log_p for hypothesis in backend.score(sources, targets) for log_p in hypothesis.log_probabilities]
    assert (torch.tensor(scores) - exact["scores"]).abs().max() <= errors["scores"]
    attention = [weights.flatten() for weights in backend.attention(sources, targets, heads)]
    assert (torch.tensor(np.concatenate(attention)) - exact["attention"]).abs().max() <= errors["attention"]


@max_examples(40)
@given(configs(), seeds)
def test_the_plain_engine_gives_the_weights_of_its_taps(config, seed):
    model, heads = lively(config, seed), random_heads(config, seed)
    sources, targets = random_pairs(config, seed)
    backend = SearchBackend(PlainStepModel(model))
    for i, weights in enumerate(backend.attention(sources, targets, heads)):
        with torch.no_grad(), record(model, "decoder.layers.*.cross_attention.weights") as recording:
            model(torch.tensor([sources[i]]), torch.tensor([[config.bos_id, *targets[i][:-1]]]))
        for (layer, head), of_head in zip(heads, weights, strict=True):
            tap = recording[f"decoder.layers.{layer}.cross_attention.weights"][0, head]
            np.testing.assert_allclose(of_head, tap.numpy(), rtol=0, atol=1e-9)


@max_examples(40)
@given(configs(), seeds, st.sampled_from(["float16", "int8"]))
def test_reduced_precisions_score_as_their_reference(config, seed, precision):
    model = lively(config, seed).float()
    sources, targets = random_pairs(config, seed)

    def log_ps(step_model):
        scored = SearchBackend(step_model).score(sources, targets)
        return np.concatenate([hypothesis.log_probabilities for hypothesis in scored])

    ours, reference = log_ps(native(model, precision)), log_ps(PlainStepModel(to_precision(model, precision)))
    float32 = log_ps(PlainStepModel(model))
    # A number halfway between two quantisation steps may round either way; see test_native_model.py.
    assert np.abs(ours - reference).mean() <= 1e-4 + 0.5 * np.abs(reference - float32).mean()


@pytest.fixture(scope="module")
def translator():
    return load("street", search=Beam(n_best=2))


def test_the_built_in_model_scores_within_1e_5_of_pytorch(translator):
    pairs = list(street.sentences("test", 200))
    sources, targets = (
        [translator.tokenizer.encode(getattr(pair, side), side) for pair in pairs] for side in ("source", "target")
    )
    ours, plain = translator.engine.score(sources, targets), score(translator.model, sources, targets)
    for one, other in zip(ours, plain, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, rel=0, abs=1e-5)
    heads = [(layer, head) for layer in range(translator.model.config.decoder_layers) for head in range(2)]
    plain_attention = SearchBackend(PlainStepModel(translator.model)).attention(sources, targets, heads)
    for weights, tapped in zip(translator.engine.attention(sources, targets, heads), plain_attention, strict=True):
        np.testing.assert_allclose(weights, tapped, rtol=0, atol=1e-5)
    assert translator.score([pairs[0].source], [pairs[0].target])[0].log_probabilities == ours[0].log_probabilities


def test_links_are_exactly_those_of_the_pytorch_model(translator):
    texts = [pair.source for pair in street.sentences("test", 200)]
    heads = align_heads(translator)
    translations = translator.translations(texts, choice=heads)
    assert all(translation.candidates[0].attention is not None for translation in translations)
    aligned = translator.word_alignments(translations, heads)
    own = align(translator.model, [pair for pair, _ in aligned], heads)
    again = translator.align([pair for pair, _ in aligned], heads)
    for (_, links), plain, second in zip(aligned, own, again, strict=True):
        assert links == second
        assert [(link.source, link.target, link.uncertain) for link in links] == [
            (link.source, link.target, link.uncertain) for link in plain
        ]
        assert [link.weight for link in links] == pytest.approx([link.weight for link in plain], rel=0, abs=1e-5)


def align_heads(translator):
    from glassformer.decoding.alignment_choice import read_alignment_heads

    return read_alignment_heads(translator.directory, translator.model.config)


def test_searches_that_record_nothing_are_read_again(translator):
    """Sampling, and rules that read tokens, search in Python."""
    heads = align_heads(translator)
    texts = [pair.source for pair in street.sentences("test", 5)]
    for search in (Sample(seed=1), Beam(no_repeat=2)):
        other = translator.replace(search=search)
        translations = other.translations(texts, choice=heads)
        assert all(translation.candidates[0].attention is None for translation in translations)
        aligned = other.word_alignments(translations, heads)
        assert [links for _, links in aligned] == other.align([pair for pair, _ in aligned], heads)


def test_split_and_blank_texts_have_no_alignment(translator):
    heads = align_heads(translator)
    limited = translator.replace()
    limited.max_tokens = 20
    long = " ".join(pair.source for pair in street.sentences("test", 4))
    translations = limited.translations([long, "", "The street was wide."], choice=heads)
    assert [alignment is None for alignment in limited.word_alignments(translations, heads)] == [True, True, False]


def test_an_ensemble_gives_the_attention_of_its_first_model_and_does_not_score():
    one, two = native(small_model(1)), native(small_model(2))
    backend = SearchBackend(Ensemble([one, two]))
    [ours], [first] = (each.attention([[5, 2]], [[7, 2]], [(1, 0)]) for each in (backend, SearchBackend(one)))
    assert np.array_equal(ours, first)
    with pytest.raises(InputError, match="score with each model separately"):
        backend.score([[5, 2]], [[7, 2]])


def test_logits_that_are_not_numbers_are_refused():
    model = small_model(share_embeddings=False)
    with torch.no_grad():
        model.encoder.embedding.weight[7] = 3e38
    backend = SearchBackend(native(model))
    with pytest.raises(InputError, match="The model's logits are not numbers"):
        backend.score([[5, 2], [7, 2]], [[2], [2]])
    assert backend.score([[5, 2]], [[2]])
