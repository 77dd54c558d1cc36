"""Engines as used by a translator: on the built-in trained model, and on small random ones."""

import random
from functools import cache

import pytest
import torch
from hypothesis import given

from glassformer import Translator, load
from glassformer.builtin import street
from glassformer.decoding import BatchLimits, Beam, Request, Sample, search
from glassformer.engine import EngineOptions, factory, open_engine
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.errors import DirectoryError, InputError, SettingsError
from tests.decoding.test_search_on_models import lively, texts_of
from tests.examples import ALL, max_examples
from tests.models import configs, seeds
from tests.small_translator import model as small_model
from tests.small_translator import saved

SENTENCES = 2000 if ALL else 200
BATCH_LIMITS = [BatchLimits(sentences=count) for count in (1, 2, 7, 8, 64)] + [
    BatchLimits(workers=2),
    BatchLimits(positions=500),
]


@cache
def street_requests() -> tuple[Translator, list[Request]]:
    translator = load("street")
    pairs = street.sentences("test", SENTENCES)
    return translator, [Request(translator.tokenizer.encode(pair.source, "source")) for pair in pairs]


@pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16", "int8"])
def test_results_are_bitwise_independent_of_batch_composition(precision):
    translator, requests = street_requests()
    step_model = NativeStepModel(translator.model, library(), precision)
    alone = search(step_model, requests, Beam(), BATCH_LIMITS[0])
    order = list(range(len(requests)))
    random.Random(0).shuffle(order)
    for limits in BATCH_LIMITS[1:]:
        results = search(step_model, [requests[i] for i in order], Beam(), limits)
        assert dict(zip(order, results, strict=True)) == dict(enumerate(alone))  # bitwise


def test_the_plain_engine_gives_the_same_translations():
    translator, requests = street_requests()
    plain = open_engine([translator.model], EngineOptions(engine="plain"))
    targets = [n_best[0].tokens for n_best in plain.search(requests, Beam())]
    assert [n_best[0].tokens for n_best in translator.engine.search(requests, Beam())] == targets
    order = list(range(len(requests)))
    random.Random(0).shuffle(order)
    small_batches = open_engine([translator.model], EngineOptions(engine="plain", sentences=7))
    shuffled = small_batches.search([requests[i] for i in order], Beam())
    assert [shuffled[order.index(i)][0].tokens for i in range(len(targets))] == targets


@max_examples(20)
@given(configs(), seeds)
def test_the_plain_engine_is_bitwise_exact_on_request(config, seed):
    model, texts = lively(config, seed).float(), texts_of(config, seed)
    exact = open_engine([model], EngineOptions(engine="plain", exact=True))
    alone = [exact.search([Request(text)], Beam(size=2))[0] for text in texts]
    assert exact.search([Request(text) for text in texts], Beam(size=2)) == alone


def test_without_a_compiler_translations_are_the_same(monkeypatch, tmp_path):
    directory = saved(tmp_path / "small")
    texts = [pair.source for pair in street.sentences("test", 20)]
    expected = {
        precision: load(directory, engine=EngineOptions(precision=precision)).translate(texts)
        for precision in ("float32", "float16")
    }
    monkeypatch.setattr(factory, "library", lambda: None)
    for precision, translations in expected.items():
        translator = load(directory, engine=EngineOptions(precision=precision))
        assert not isinstance(translator.engine.step_model, NativeStepModel)
        assert translator.translate(texts) == translations


def test_ctranslate2_gives_the_same_translations(tmp_path):
    pytest.importorskip("ctranslate2")
    directory = saved(tmp_path / "small")
    texts = [pair.source for pair in street.sentences("test", 40)]
    ours = load(directory, search=Beam.greedy())
    theirs = load(directory, search=Beam.greedy(), engine=EngineOptions(engine="ctranslate2"))
    for one, other in zip(ours.translations(texts), theirs.translations(texts), strict=True):
        assert one.text == other.text
        assert one.candidates[0].ids == other.candidates[0].ids
        assert one.candidates[0].log_probabilities == pytest.approx(other.candidates[0].log_probabilities, abs=1e-3)
        assert one.candidates[0].score == pytest.approx(other.candidates[0].score, abs=1e-3)


def test_batches_of_ctranslate2_start_together_and_follow_the_options():
    pytest.importorskip("ctranslate2")
    engine = open_engine([small_model()], EngineOptions(engine="ctranslate2", workers=3, sentences=2))
    assert engine.workers == 3
    waiting = engine.tasks([Request([5, 6, 2]), Request([7, 2]), Request([8, 2])], Beam(), range(3))
    batch = engine.open(Beam(), reads_tokens=False)

    def take(fits):
        return waiting.pop(0) if waiting and fits(waiting[0]) else None

    assert [batch.fill(take), len(list(batch.advance()))] == [2, 2]
    assert [batch.fill(take), len(list(batch.advance()))] == [1, 1]
    assert [batch.fill(take), batch.tasks] == [0, {}]


def test_the_ctranslate2_export_is_cached(tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2")
    directory = saved(tmp_path / "small")
    options = EngineOptions(engine="ctranslate2")
    load(directory, engine=options)
    [cached] = directory.glob("ctranslate2-*")
    monkeypatch.setattr("glassformer.engine.ctranslate2_engine._write", lambda *_: pytest.fail("exported again"))
    assert load(directory, engine=options)("A sentence.")  # the model directory is still valid, too
    monkeypatch.undo()
    (cached / "model.bin").write_bytes(b"damaged")
    with pytest.raises(DirectoryError, match=r"model\.bin"):
        load(directory, engine=options)


def test_an_export_that_differs_is_refused(monkeypatch, tmp_path):
    pytest.importorskip("ctranslate2")
    from glassformer.engine import ctranslate2_engine

    def damaged(model, directory):
        with torch.no_grad():
            model.output_projection.weight[5] += 1
        original(model, directory)
        with torch.no_grad():
            model.output_projection.weight[5] -= 1

    original = ctranslate2_engine.write_ctranslate2
    monkeypatch.setattr(ctranslate2_engine, "write_ctranslate2", damaged)
    directory = saved(tmp_path / "small", tie_output=False)
    with pytest.raises(
        InputError, match=r"log-probabilities for this model differ from Glassformer's by up to .* per token"
    ):
        load(directory, engine=EngineOptions(engine="ctranslate2"))
    assert not list(directory.glob("*ctranslate2*"))


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        ({"exact": True}, Beam(), "does not guarantee that results are bitwise independent"),
        ({"precision": "float16"}, Beam(), "no float16"),
        ({"precision": "bfloat16"}, Beam(), "no bfloat16"),
        ({}, Sample(), "does not support sampling"),
        ({}, Beam(diversity=1.0), "does not support sampling"),
    ],
)
def test_what_ctranslate2_does_not_support_is_refused(options, settings, message):
    pytest.importorskip("ctranslate2")
    with pytest.raises(InputError, match=message):
        open_engine([small_model()], EngineOptions(engine="ctranslate2", **options)).search([Request([5, 2])], settings)


def test_an_unknown_precision_is_refused():
    with pytest.raises(SettingsError, match="precision"):
        EngineOptions(precision="int4")


def test_one_model_at_a_time_for_ctranslate2():
    with pytest.raises(InputError, match="one model at a time"):
        open_engine([small_model(), small_model(1)], EngineOptions(engine="ctranslate2"))


def test_ctranslate2_respects_the_length_limit_of_each_sentence():
    """CTranslate2 has one limit per call; ours depends on each sentence."""
    pytest.importorskip("ctranslate2")
    model = small_model()
    requests = [Request([*range(5, 5 + length), 2]) for length in (1, 3, 9, 3)]
    settings = Beam(size=1, max_length_ratio=1.0, max_length_extra=2, length_penalty=0.0)
    theirs = open_engine([model], EngineOptions(engine="ctranslate2")).search(requests, settings)
    ours = open_engine([model], EngineOptions()).search(requests, settings)
    assert [n_best[0].tokens for n_best in theirs] == [n_best[0].tokens for n_best in ours]
