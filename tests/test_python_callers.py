"""What a Python program may do with a translator: any texts, options per call, copies in other processes, saving."""

import asyncio
import copy
import inspect
import json
import os
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.atomic_directory import building
from glassformer.data import ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.given_texts import listed_texts
from glassformer.decoding.alignment_choice import default_alignment_heads, read_alignment_heads, write_alignment_heads
from glassformer.decoding.search_choice import SearchOptions
from glassformer.engine import open_engine
from glassformer.errors import GlassformerError, InputError, SettingsError
from glassformer.evaluation import score as corpus_scores
from glassformer.loading import LoadOptions
from glassformer.model.directory import write_model
from tests.examples import max_examples
from tests.models import build
from tests.processes import run_fresh, run_plainly
from tests.small_translator import model, saved, tokenizer

SHORT = {"max_length_ratio": 0.5, "max_length_extra": 4}
TEXTS = ["The street was wide.", "", "The dog."]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture(scope="module")
def translator(directory):
    return gf.load(directory, **SHORT)


class Column:
    """A column of a table, as pandas has them: iterated by its values."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)


class Table(Column):
    columns = ("en", "de")


class NAType:
    """Stands for pandas's value of an empty cell, which refuses to be compared."""

    def __eq__(self, other):
        raise TypeError

    def __repr__(self):
        return "<NA>"


def test_one_text_gives_one_result_and_several_give_a_list(translator):
    for text in TEXTS:
        assert translator(text) == translator.translate(text) == translator.translations(text).text
        assert [translator.translate(text)] == translator.translate([text]) == translator([text])
    assert translator.translations(TEXTS) == [translator.translations(text) for text in TEXTS]
    assert translator.translate([]) == translator.translations([]) == translator.score([], []) == []
    targets = ["Die Straße.", "", "Hund"]
    assert translator.score(TEXTS, targets) == [translator.score(*pair) for pair in zip(TEXTS, targets, strict=True)]


@pytest.mark.parametrize("given_as", [tuple, iter, np.array, Column, lambda texts: (text for text in texts)])
def test_whatever_can_be_iterated_is_a_list_of_texts(translator, given_as):
    assert translator.translate(given_as(TEXTS)) == translator.translate(TEXTS)
    assert translator.score(given_as(TEXTS), given_as(TEXTS)) == translator.score(TEXTS, TEXTS)


NO_TEXTS = {
    "None": (None, "texts should be text or a list of texts; it is None."),
    "number": (5, "texts should be text or a list of texts; it is of type int."),
    "bytes": (b"a", 'texts should be .*; it is bytes: decode it first, as in text.decode."utf-8".'),
    "mapping": ({"a": 1}, "it is of type dict: give its values or its keys, as a list"),
    "set": ({"a"}, "which has no order: give a list"),
    "table": (Table(["a"]), "it is a table .Table.: give one of its columns"),
    "None inside": (["a", None], r'texts\[1\] should be text; it is None: leave it out, or use "", which stays blank'),
    "NaN inside": (Column([float("nan"), "a"]), r"texts\[0\] should be text; it is nan: leave it out"),
    "NA inside": ([NAType()], r"texts\[0\] should be text; it is <NA>: leave it out"),
    "bytes inside": (["a", "b", b"c"], r"texts\[2\] should be text; it is bytes: decode it first"),
    "list inside": ([["a"]], r"texts\[0\] should be text; it is of type list"),
}


@pytest.mark.parametrize("what", NO_TEXTS)
def test_what_is_no_text_is_refused_with_its_place(translator, what):
    texts, sentence = NO_TEXTS[what]
    for refuses in (translator, translator.translate, translator.translations):
        with pytest.raises(InputError, match=sentence):
            refuses(texts)


def test_one_text_is_not_taken_apart_by_the_inspector(translator):
    inspector = gf.inspect(translator)
    assert len(inspector.align("The dog.", "Der Hund.")) == 1
    assert inspector.rank_heads("The dog.") == inspector.rank_heads(["The dog."])
    average = gf.AverageHead(at="decoder.layers.0.cross_attention", head=0)
    one, other = (inspector.changed_translator(average, average_over=over) for over in ("The dog.", ["The dog."]))
    assert one.translations(TEXTS) == other.translations(TEXTS)
    with pytest.raises(InputError, match="There are 2 sources for 1 targets"):
        inspector.align(["a", "b"], ["a"])
    with pytest.raises(InputError, match="Expected text; it is None"):
        inspector.trace(None)
    for takes_a_translator in (gf.inspect, gf.explore):
        with pytest.raises(InputError, match=r"not (its|a) name: \w+\(load\('street'\)"):
            takes_a_translator("street")
    with pytest.raises(InputError, match="should be lists of texts: put a single text into a list"):
        corpus_scores("ab", "ab")


def test_pairs_to_score_must_match(translator):
    with pytest.raises(InputError, match=r"targets\[1\] should be text; it is None"):
        translator.score(["a", "b"], ["a", None])
    with pytest.raises(InputError, match="one source and one target, or a list of each"):
        translator.score("a", ["a"])
    with pytest.raises(InputError, match="There are 2 sources for 1 targets"):
        translator.score(["a", "b"], ["a"])
    with pytest.raises(InputError, match="There are 1 constraints for 2 texts"):
        translator.translate(["a", "b"], [gf.Constraints()])


def test_one_phrase_is_not_taken_apart_and_constraints_may_be_for_all_texts(translator):
    assert gf.Constraints(phrases="Tier") == gf.Constraints(phrases=["Tier"])
    whole = gf.Constraints(prefix="Das", phrases="Tier")
    assert translator.translations(TEXTS, whole) == translator.translations(TEXTS, [whole] * len(TEXTS))


beams = st.fixed_dictionaries(
    {},
    optional={
        "beam": st.integers(1, 5),
        "n_best": st.integers(1, 3),
        "length_penalty": st.floats(0, 2),
        "no_repeat": st.integers(0, 3),
    },
)
samples = st.fixed_dictionaries(
    {"sample": st.just(True)}, optional={"seed": st.integers(0, 9), "top_k": st.integers(0, 9), "n_best": st.just(2)}
)


@max_examples(40)
@given(beams | samples)
def test_options_of_a_call_are_those_of_a_search(translator, options):
    """The same as a translator with this search, and only for this call."""
    named = {{"beam": "size"}.get(name, name): value for name, value in options.items() if name != "sample"}
    search = (gf.Sample if "sample" in options else gf.Beam)(**SHORT | named)
    before = translator.search
    assert translator.translations(TEXTS, **options) == translator.translations(TEXTS, search=search)
    assert translator.translations(TEXTS, **options) == translator.replace(search=search).translations(TEXTS)
    assert translator.with_search(**options).search == search
    assert translator.search == before


def test_beam_and_sample_change_the_kind_and_keep_what_both_have():
    sampling = gf.load("street", search=gf.Sample(n_best=3, top_k=5, no_repeat=2))
    assert sampling.with_search(beam=6).search == gf.Beam(size=6, n_best=3, no_repeat=2)
    assert sampling.with_search(sample=False).search == gf.Beam(n_best=3, no_repeat=2)
    assert sampling.with_search(seed=4).search == gf.Sample(n_best=3, top_k=5, no_repeat=2, seed=4)


WRONG_OPTIONS = {
    "mistyped": ({"beem": 3}, "There is no option 'beem'; did you mean 'beam'?"),
    "of another program": ({"num_beams": 3}, "There is no option 'num_beams'; did you mean 'beam'?"),
    "of Beam": ({"size": 3}, "There is no option 'size'; did you mean 'beam'?"),
    "no search option": ({"glosary": {}}, "There is no option 'glosary'; did you mean 'glossary'?"),
    "value": ({"beam": 0}, "beam = 0 should be at least 1."),
    "of sampling": ({"temperature": 0.5}, "temperature has no effect without sampling: add sample=True"),
    "of beam search": ({"sample": True, "diversity": 1.0}, "diversity has no effect without beam search"),
    "two kinds": ({"beam": 3, "sample": True}, "beam and sample=True are two kinds of search"),
    "search by name": ({"search": "beam"}, "search = 'beam' should be Beam"),
}


@pytest.mark.parametrize("what", WRONG_OPTIONS)
def test_wrong_options_of_a_call_get_a_sentence(translator, what):
    options, sentence = WRONG_OPTIONS[what]
    with pytest.raises(SettingsError) as error:
        translator.translate("a", **options)
    assert str(error.value).startswith(sentence)


def test_the_typed_options_are_those_of_the_settings():
    fields = {*gf.Beam.model_fields, *gf.Sample.model_fields}
    assert {*SearchOptions.__annotations__} == fields - {"size"} | {"beam", "sample"}
    arguments = {*LoadOptions.__annotations__, *inspect.signature(gf.load).parameters}
    assert arguments >= {*gf.EngineOptions.model_fields}


def test_load_takes_plain_names():
    """`engine="plain"` is `engine=EngineOptions(engine="plain")`, and so on; those by name come first."""
    named = gf.load("street", engine="plain", precision="int8", beam=2, n_best=2)
    assert named.search == gf.Beam(size=2, n_best=2)
    assert named.reopen.engine == gf.EngineOptions(engine="plain", precision="int8")
    kept = gf.load("street", engine=gf.EngineOptions(workers=1, precision="int8"), precision="float32")
    assert kept.reopen.engine == gf.EngineOptions(workers=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"presicion": "int8"}, "There is no option 'presicion'; did you mean 'precision'?"),
        ({"serch": gf.Beam()}, "There is no option 'serch'; did you mean 'search'?"),
        ({"precision": "int7"}, "precision = 'int7' should be 'float32'"),
        ({"engine": "plian"}, "engine = 'plian' should be 'fast', 'plain' or 'ctranslate2'."),
        ({"beam": "5"}, "beam = '5' should be a whole number."),
    ],
)
def test_wrong_options_of_load_get_a_sentence(options, sentence):
    with pytest.raises(SettingsError) as error:
        gf.load("street", **options)
    assert str(error.value).startswith(sentence)
    with pytest.raises(InputError, match="opened by its name or path"):
        gf.load(None)


def test_a_translator_works_in_another_process(directory, tmp_path):
    """Sent as path and options, from a directory where the path was relative; PyTorch is not imported there."""
    code = """
        import os, pickle, sys
        import glassformer as gf
        os.chdir(sys.argv[1])
        with open(sys.argv[2], "wb") as file:
            pickle.dump(gf.load("small", precision="int8", max_length_ratio=0.5, beam=2).translate, file)
    """
    run_fresh(code, str(directory.parent), str(tmp_path / "pickled"))
    assert (tmp_path / "pickled").stat().st_size < 2000
    code = """
        import json, pickle, sys
        with open(sys.argv[1], "rb") as file:
            translate = pickle.load(file)
        assert "torch" not in sys.modules or sys.argv[2] == "1"
        print(json.dumps(translate(json.loads(sys.argv[3]))))
    """
    translator = gf.load(directory, precision="int8", max_length_ratio=0.5, beam=2)
    has_compiler = translator.reopen.engine.engine == "fast" and "engine fast" in repr(translator)
    printed = run_fresh(code, str(tmp_path / "pickled"), str(int(not has_compiler)), json.dumps(TEXTS))
    assert json.loads(printed) == translator.translate(TEXTS)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_translates_the_same(translator, directory, duplicate):
    other = tokenizer(500)
    ensemble = gf.load(directory, directory, **SHORT)
    in_memory = gf.Translator(model(), tokenizer(), gf.Beam(size=2, **SHORT), max_tokens=20)
    for one in (translator, translator.with_search(beam=1), ensemble, in_memory):
        twin = duplicate(one)
        assert twin.translations(TEXTS) == one.translations(TEXTS)
        assert (twin.search, twin.max_tokens, twin.n_models) == (one.search, one.max_tokens, one.n_models)
        assert repr(twin) == repr(one)
        assert twin.weights is not one.weights
    assert duplicate(translator.replace(tokenizer=other)).tokenizer.files() == other.files()


def test_a_deep_copy_shares_no_memory(translator):
    for one in (translator, gf.Translator(model(), tokenizer(), gf.Beam(size=2, **SHORT))):
        before = one.translations(TEXTS)
        twin = copy.deepcopy(one)
        for tensor in twin.weights.tensors.values():
            assert not any(np.shares_memory(tensor.array, other.array) for other in one.weights.tensors.values())
        for weight in twin.model.parameters():
            weight.data.zero_()
        assert one.translations(TEXTS) == before


def test_a_process_opens_the_model_of_its_tasks_once(directory):
    one, other = (gf.load(directory, beam=beam) for beam in (2, 3))
    first, second = (pickle.loads(pickle.dumps(each)) for each in (one, other))
    assert first.engine is second.engine
    assert (first.search.size, second.search.size) == (2, 3)
    assert copy.deepcopy(one).engine is not copy.deepcopy(one).engine


def test_what_cannot_be_sent_says_so(directory, tmp_path):
    translator = gf.load(directory)
    changed = gf.inspect(translator).changed_translator(gf.RemoveHead(at="decoder.layers.0.cross_attention", head=0))
    for refuse in (pickle.dumps, copy.deepcopy, lambda one: one.save(tmp_path / "changed")):
        with pytest.raises(InputError, match=r"changes that no file holds \(RemoveHead\)"):
            refuse(changed)
    with_engine = translator.replace(engine=open_engine([translator.weights], gf.EngineOptions()))
    with pytest.raises(InputError, match="its engine was made in memory: save the model with `save`"):
        pickle.dumps(with_engine)
    with pytest.raises(InputError, match="An ensemble cannot be saved as one model"):
        gf.load(directory, directory).save(tmp_path / "both")
    moved = saved(tmp_path / "here", seed=3)
    pickled = pickle.dumps(gf.load(moved))
    moved.rename(tmp_path / "there")
    with pytest.raises(GlassformerError, match="is sent as the path of its model, which cannot be opened here: There"):
        pickle.loads(pickled)


def test_a_run_is_sent_as_the_model_that_was_opened(tmp_path):
    """Not as the run, which may have a better model by then."""
    saved(tmp_path / "run/best-1", seed=1)
    translator = gf.load(tmp_path / "run", **SHORT)
    pickled = pickle.dumps(translator)
    saved(tmp_path / "run/best-2", seed=2)
    assert pickle.loads(pickled).translations(TEXTS) == translator.translations(TEXTS)


def test_a_shallow_copy_shares_the_model(translator):
    assert copy.copy(translator).engine is translator.engine


def test_the_repr_names_model_engine_and_precision(directory):
    assert repr(gf.load(directory, engine="plain")) == "<Translator small, engine plain, float32>"
    assert repr(gf.load(directory, directory, engine="plain")).startswith("<Translator small + small, ")
    assert repr(gf.Translator(model(), tokenizer())) == "<Translator in memory, engine plain, float32>"


def test_languages_are_shown_and_sent(tmp_path):
    codes = {code: f"<{code}>" for code in ("en", "de", "fr")}
    around = {"before_source": ["{source}"], "before_target": ["{target}"], "after_source": ["</s>"]}
    settings = ImportedTokenizerSettings(cut="words", joint=True, after_target=["</s>"], languages=codes, **around)
    many = ImportedTokenizer.joint(settings, ["<pad>", "<s>", "</s>", "<unk>", *codes.values(), "a", "b", "c"], b"")
    config = gf.ModelConfig(vocab_size=10, d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1)
    with building(tmp_path / "many") as unfinished:
        write_model(build(config, 0, torch.float32), unfinished)
        many.write(unfinished / "tokenizer")
    german = gf.load(tmp_path / "many", source_language="en", target_language="de")
    french = german.replace(tokenizer=german.tokenizer.with_languages(None, "fr"))
    for translator, languages in ((german, "en to de"), (french, "en to fr")):
        for one in (translator, copy.deepcopy(translator), pickle.loads(pickle.dumps(translator))):
            assert repr(one).startswith(f"<Translator many, {languages}, engine ")
            assert one.tokenizer.settings == translator.tokenizer.settings
            assert one.translations("a b") == translator.translations("a b")


def test_a_saved_translator_is_the_same_with_all_that_was_measured(translator, directory, tmp_path):
    measured = saved(tmp_path / "measured")
    choice = default_alignment_heads(translator.config).model_copy(update={"warn_above": 0.25})
    write_alignment_heads(choice, measured)
    gf.load(measured).save(tmp_path / "copy")
    assert gf.load(tmp_path / "copy", **SHORT).translations(TEXTS) == translator.translations(TEXTS)
    assert read_alignment_heads(tmp_path / "copy", translator.config) == choice
    gf.load(measured).save(tmp_path / "eighth", eight_bits=True)
    sizes = [os.path.getsize(tmp_path / name / "model.safetensors") for name in ("eighth", "copy")]
    assert sizes[0] < 0.6 * sizes[1]
    with pytest.raises(GlassformerError, match="already exists"):
        translator.save(tmp_path / "copy")


def test_asynchronous_calls_give_the_same(translator):
    async def both() -> list:
        return await asyncio.gather(translator.translate_async(TEXTS, beam=3), translator.translate_async(TEXTS[0]))

    assert asyncio.run(both()) == [translator.translate(TEXTS, beam=3), translator.translate(TEXTS[0])]


def test_a_model_is_scored_from_files_and_from_lists(directory, tmp_path):
    sources, targets = ["The dog sleeps.", "The man reads."], ["Der Hund schläft.", "Der Mann liest."]
    (tmp_path / "source").write_text("\n".join(sources))
    (tmp_path / "target").write_text("\n".join(targets))
    files = {"source": tmp_path / "source", "reference": str(tmp_path / "target")}
    translator = gf.load(directory)
    from_files = gf.evaluate(str(directory), **files, beam=2)
    assert from_files == gf.evaluate(translator, sources, (target for target in targets), beam=2)
    assert from_files.translations == translator.translate(sources, beam=2)
    compared = gf.evaluate(translator, sources, targets, against=targets)
    assert compared.baseline.bleu.score == pytest.approx(100)
    scored = gf.score(translator, tmp_path / "source", tmp_path / "target", length_penalty=0.0)
    assert scored.scores == [one.score for one in translator.with_search(length_penalty=0.0).score(sources, targets)]
    total = sum(sum(one.log_probabilities) for one in scored.candidates)
    assert np.log(scored.perplexity) == pytest.approx(-total / sum(len(one.tokens) for one in scored.candidates))
    with pytest.raises(GlassformerError, match="There are sources and no targets"):
        gf.score(translator, sources)


def test_training_options_are_checked_before_anything_is_written(tmp_path):
    out = tmp_path / "run"
    for wrong, sentence in (
        ({"sorce": "a"}, "There is no option 'sorce'; did you mean 'source'?"),
        ({"learning_rat": 1.0}, "did you mean 'learning_rate'?"),
        ({"updates": 0}, "training.updates = 0 should be at least 1."),
        ({"model": "tiny"}, "model = 'tiny' should contain named options."),
        ({"training": {"updats": 8}}, "did you mean 'training.updates'?"),
        ({"out": None}, "The option 'out' is missing."),
    ):
        with pytest.raises(GlassformerError, match=re.escape(sentence)):
            gf.train(**{"source": tmp_path / "a", "target": tmp_path / "b", "out": out} | wrong)
    assert not out.exists()


def test_a_translator_is_exported(directory, tmp_path):
    assert gf.export(gf.load(directory), tmp_path / "onnx", to="onnx", count=2).directory == tmp_path / "onnx"
    for translator, to, sentence in (
        (directory, "pytorch", "There is no export to 'pytorch'; choose one of huggingface, ctranslate2, onnx."),
        (gf.load(directory, directory), "onnx", "An ensemble cannot be exported as one model"),
    ):
        with pytest.raises(InputError, match=sentence):
            gf.export(translator, tmp_path / "no", to=to)
    assert not (tmp_path / "no").exists()


def test_a_translator_is_served_until_a_signal(directory):
    run_plainly(
        """
        import json, os, signal, sys, threading, urllib.request
        import glassformer as gf

        translator, answers = gf.load(sys.argv[1]), []

        def ask(name, address, engine):
            def request():
                body = json.dumps({"text": "The dog."}).encode()
                headers = {"content-type": "application/json"}
                with urllib.request.urlopen(urllib.request.Request(f"{address}/api/translate", body, headers)) as reply:
                    answers.append(json.load(reply)["translations"][0]["text"])
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=request).start()

        gf.serve(translator, port=0, on_started=ask)
        assert answers == [translator("The dog.")]

        try:
            gf.serve(translator, keys="short")
        except gf.GlassformerError as error:
            assert str(error).startswith("keys[0]: a key needs at least 16")
        else:
            raise AssertionError

        async def inside():
            gf.serve(translator, port=0)

        import asyncio
        try:
            asyncio.run(inside())
        except gf.GlassformerError as error:
            assert "serve from another thread or process" in str(error)
        else:
            raise AssertionError
        """,
        str(directory),
    )


def test_texts_are_listed_once():
    assert listed_texts("ab") == ["ab"]
    assert listed_texts(iter("ab")) == ["a", "b"]
