"""Translator: one translation per text, in order, for any text; constraints, splitting, ensembles and errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import Beam, Sample
from glassformer.errors import GlassformerError, InputError
from glassformer.loading import load
from glassformer.translator import Constraints, Translator, mentions
from tests.examples import max_examples
from tests.small_translator import model, saved, tokenizer

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
short = {"max_length_ratio": 0.5, "max_length_extra": 4}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(model(), tokenizer(), Beam(size=2, **short))


@max_examples(40)
@given(st.lists(texts, max_size=6), st.randoms())
def test_each_text_has_its_own_answer_wherever_it_stands(translator, lines, chance):
    alone = [translator(line) for line in lines]
    assert translator.translate(lines) == alone
    chance.shuffle(lines)
    assert sorted(translator.translate(lines)) == sorted(alone)
    for line, answer in zip(lines, translator.translate(lines), strict=True):
        assert bool(line.strip()) or answer == ""


@max_examples(100)
@given(texts.filter(str.strip))
def test_a_translation_and_a_score_agree(translator, line):
    [translation] = translator.translations([line])
    best = translation.candidates[0]
    assert best.text == tokenizer().decode(best.ids)
    if tokenizer().encode(best.text, "target") == best.ids:  # else the model segmented its text in another way
        [scored] = translator.score([line], [best.text])
        assert scored.score == pytest.approx(best.score, abs=1e-5)
        assert scored.log_probabilities == pytest.approx(best.log_probabilities, abs=1e-4)


@max_examples(60)
@given(texts.filter(str.strip), st.integers(2, 5), st.booleans())
def test_alternatives_are_distinct_texts_best_first(line, n_best, draw):
    search = Sample(n_best=n_best, **short) if draw else Beam(size=n_best, n_best=n_best, **short)
    [translation] = Translator(model(), tokenizer(), search).translations([line])
    candidates = [candidate.text for candidate in translation.candidates]
    assert 1 <= len(candidates) <= n_best
    assert len(set(candidates)) == len(candidates)
    if not draw:
        scores = [candidate.score for candidate in translation.candidates]
        assert scores == sorted(scores, reverse=True)


@max_examples(60)
@given(texts.filter(str.strip), st.sampled_from(["Das", "Die Straße", "x"]), st.sampled_from(["Tier", "zu breit", "é"]))
def test_constraints_are_met_in_the_text(translator, line, prefix, phrase):
    [translation] = translator.translations([line], [Constraints(prefix, (phrase,))])
    assert translation.text.startswith(prefix)
    assert phrase in translation.text


def test_a_glossary_applies_to_texts_with_its_term(translator):
    terms = {"street": "Gasse", "dog": "Köter"}
    with_term, without = translator.translations(["The street, wide.", "The streets."], glossary=terms)
    assert "Gasse" in with_term.text
    assert "Gasse" not in without.text
    assert mentions("a dog.", "dog")
    assert not mentions("hotdog dogs", "dog")


def test_a_long_text_is_split_and_the_parts_are_counted():
    limited = Translator(model(), tokenizer(), Beam(size=2, **short), max_tokens=20)
    line = "The animal was tired. " * 12
    [translation] = limited.translations([line])
    assert translation.parts > 1
    ends = [token for token in translation.candidates[0].ids if token == 2]
    assert len(ends) == translation.parts
    assert limited.translations(["The animal."])[0].parts == 1
    assert limited.translations([" "])[0].parts == 0


def test_learned_positions_limit_what_is_read_in_one_piece():
    small = Translator(model(positions="learned", max_positions=24), tokenizer(), Beam(size=2))
    assert small.max_tokens == 24
    assert small.translations(["The animal was tired. " * 12])[0].parts > 1


def test_minimum_bayes_risk_only_reorders_the_candidates():
    sampling = Translator(model(), tokenizer(), Sample(n_best=12, **short))
    [plain], [by_risk] = sampling.translations(["The animal."]), sampling.translations(["The animal."], mbr=True)
    assert {a.text for a in plain.candidates} == {a.text for a in by_risk.candidates}


def test_models_form_an_ensemble_if_they_share_a_tokenizer(tmp_path):
    one, two = saved(tmp_path / "one", seed=1), saved(tmp_path / "two", seed=2)
    ensemble = load(one, two)
    assert ensemble.translate(["The animal."]) != [""]
    assert load(one, one).translate(["The dog."]) == load(one).translate(["The dog."])
    with pytest.raises(InputError, match="score with each model separately"):
        ensemble.score(["a"], ["b"])
    with pytest.raises(InputError, match="have different tokenizers"):
        load(one, "street")


def test_half_a_surrogate_pair_is_an_error_with_a_message(translator):
    with pytest.raises(GlassformerError, match="an unpaired surrogate"):
        translator.translate(["a \ud800 b"])


def test_a_translator_with_another_search_shares_the_model_and_leaves_the_first_as_it_is(translator):
    texts = ["The street was wide.", "The dog."]
    before = translator.translations(texts)
    greedy = translator.replace(search=Beam(size=1, **short))
    assert greedy.model is translator.model
    assert greedy.translate(texts) == Translator(model(), tokenizer(), Beam(size=1, **short)).translate(texts)
    assert translator.translations(texts) == before


def test_a_translation_carries_the_ids_of_its_source(translator):
    whole, blank = translator.translations(["The street was wide.", " "])
    assert whole.source_ids == translator.tokenizer.encode("The street was wide.", "source")
    assert blank.source_ids is None
    limited = Translator(model(), tokenizer(), Beam(size=2, **short), max_tokens=20)
    [split] = limited.translations(["The animal was tired. " * 12])
    assert split.parts > 1
    assert split.source_ids is None
