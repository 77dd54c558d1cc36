"""Every step of a walk can be redone; every number of the exchange of matrices is the model's."""

import math

import pytest
import torch
from hypothesis import Phase, given
from hypothesis import strategies as st
from torch import nn

from glassformer.decoding import Beam, PlainStepModel, Request, score, search
from glassformer.errors import InputError
from glassformer.inspection import Trace, trace
from glassformer.inspection.explanation.attention_steps import walk
from glassformer.inspection.explanation.attribution import (
    attention_weights,
    edges,
    log_probabilities,
    rollout,
    weighted_values,
)
from glassformer.inspection.explanation.query_position import QueryPosition, choose
from glassformer.inspection.explanation.token_names import find_token, is_word, plain
from glassformer.inspection.interventions.cross_attention_matrices import (
    choices,
    cross,
    in_words,
    keys_values,
    with_matrices,
)
from glassformer.loading import load
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources, talkative, targets

FAST = [Phase.explicit, Phase.reuse, Phase.generate]
"""Without shrinking: each try is a search with six models."""
SEEDS_SENTENCE = "The animal didn't cross the street because it was too tired."


def traced(config, seed, dtype=torch.float64):
    model = build(config, seed, dtype)
    source = sources(config, [5], seed)[0].tolist()
    target = targets(config, [5], seed)[0, 1:].tolist()
    return model, trace(model, Request(source), target)


@max_examples(25)
@given(config=configs(), seed=seeds, data=st.data())
def test_every_step_can_be_redone_from_the_numbers_before(config, seed, data):
    _, heard = traced(config, seed)
    at = data.draw(st.sampled_from(heard.attentions))
    place = QueryPosition(at, data.draw(st.integers(0, config.n_heads - 1)), data.draw(st.integers(0, 3)))
    way = walk(heard, place)
    for step in way.steps:
        size = max(float(vector.numbers.abs().max()) for vector in step.vectors)
        assert step.differs is not None
        assert step.differs <= 1e-10 * max(1.0, size), step.name
    assert sum(key.weight for key in way.keys) == pytest.approx(1)
    looks_ahead = at.endswith("decoder.self_attention") or (place.stack == "decoder" and not place.crosses)
    assert way.hidden == (heard.steps - 1 - place.position if looks_ahead else 0)


@max_examples(12)
@given(config=configs(), seed=seeds)
def test_what_the_steps_show_adds_up(config, seed):
    """From the vectors that are shown alone, without the weights: shares to the output, weighted values to z."""
    _, heard = traced(config, seed)
    for at in heard.attentions:
        way = walk(heard, QueryPosition(at, 0, 1))
        *shares, output = (vector.numbers for vector in way.step("output").vectors)
        torch.testing.assert_close(torch.stack(shares).sum(0), output)
        z = torch.stack([key.weight * key.v for key in way.keys]).sum(0)
        torch.testing.assert_close(z, way.step("context").vectors[-1].numbers)
        products = torch.tensor([key.product * way.scale + key.bias for key in way.keys], dtype=torch.float64)
        torch.testing.assert_close(products, torch.tensor([key.score for key in way.keys], dtype=torch.float64))
        assert way.scale == (1 / math.sqrt(config.d_head) if config.scale_scores else 1.0)


@max_examples(12)
@given(config=configs(), seed=seeds, data=st.data())
def test_what_is_named_is_taken_and_the_rest_is_chosen(config, seed, data):
    _, heard = traced(config, seed)
    at = data.draw(st.sampled_from([None, *heard.attentions]))
    head = data.draw(st.sampled_from([None, *range(config.n_heads)]))
    place = choose(heard, at=at, head=head)
    assert at in (None, place.at)
    assert head in (None, place.head)
    walk(heard, place)


def test_a_saved_trace_without_weights_says_what_it_cannot_redo(tmp_path):
    heard = load("street").trace(SEEDS_SENTENCE, beam=1)
    heard.save(tmp_path / "trace", detail="everything")
    way = walk(Trace.load(tmp_path / "trace"), QueryPosition("encoder.layers.0.self_attention", 1, 10))
    redone = {step.name for step in way.steps if step.differs is not None}
    assert {"scores", "softmax", "context", "residual"} <= redone
    assert not {"embedding", "query", "keys", "values", "share"} & redone


def test_it_looks_by_itself_and_a_word_of_the_target_in_the_decoder():
    heard = load("street").trace(SEEDS_SENTENCE, beam=1)
    assert heard.source[choose(heard).position] == "▁it"
    place = choose(heard, "es")
    assert heard.target[place.position] == "▁es"
    assert place.crosses
    way = walk(heard, place)
    assert (way.piece, way.writes) == ("▁weil", "▁es")
    assert max(way.keys, key=lambda key: key.weight).piece == "▁animal"


def test_tokens_are_found_by_the_names_people_use():
    pieces = ["▁It", "▁saw", "▁the", "▁did", "n", "'", "t", "▁it", ".", "</s>"]
    assert find_token(pieces, "it") == 7
    assert find_token(pieces, "It") == 0
    assert find_token(pieces, "▁it") == 7
    assert find_token(pieces, "didn't") == 3
    assert find_token(pieces, "it#2") is None
    assert find_token(["▁it", "▁it"], "it#2") == 1
    assert find_token(pieces, "SAW") == 1
    assert find_token(pieces, "nothing") is None
    assert find_token(["#", "▁#"], "#") == 0
    assert [plain("▁it"), plain("Ġit"), plain("it")] == ["it"] * 3
    assert [is_word(piece) for piece in ("▁it", ".", "</s>", "n")] == [True, False, False, True]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (QueryPosition("encoder.layers.9.self_attention", 0, 0), "The model has no attention 'encoder.layers.9"),
        (QueryPosition("encoder.layers.0.self_attention", 4, 0), "has 4 heads, counted from 0, and none is 4"),
        (QueryPosition("encoder.layers.0.self_attention", 0, 99), "has 16 positions, counted from 0, and none is 99"),
    ],
)
def test_what_is_not_there_is_one_sentence(place, says):
    heard = load("street").trace(SEEDS_SENTENCE, beam=1)
    with pytest.raises(InputError, match=says):
        walk(heard, place)


@given(config=configs(decoder_ssru=True, positions="sinusoidal"), seed=seeds)
@max_examples(3)
def test_a_recurrent_decoder_says_that_it_has_no_self_attention(config, seed):
    _, heard = traced(config, seed)
    with pytest.raises(InputError, match=r"no self-attention.*SSRU"):
        choose(heard, at="decoder.layers.0.self_attention")
    walk(heard, choose(heard, at="decoder.layers.0.cross_attention"))


# ---- evidence --------------------------------------------------------------------------------------------------------


@max_examples(12)
@given(config=configs(), seed=seeds)
def test_looks_at_everything_are_all_there_is(config, seed):
    model, heard = traced(config, seed)
    for at in heard.attentions:
        everyone = range(heard[f"{at}.v"].shape[1])
        torch.testing.assert_close(
            attention_weights(heard, at, [1, 2], everyone), torch.ones(config.n_heads, dtype=torch.float64)
        )
        output = heard[f"{at}.output"][1]
        bias = heard.parameter(f"{at}.out_proj.bias")
        whole = output if bias is None else output - bias
        assert weighted_values(heard, at, [1], everyone) == pytest.approx(float(whole.norm()))
        assert weighted_values(heard, at, [1], []) == 0
    torch.testing.assert_close(rollout(heard).sum(1), torch.ones(len(heard.source), dtype=torch.float64))
    source, target = heard.about.source.ids, heard.about.target.ids
    assert log_probabilities(model, source, target, edges([], [0], [1])) == pytest.approx(heard.log_probabilities)
    every = [at for at in heard.attentions if not at.startswith("decoder") or at.endswith("cross_attention")]
    cut = log_probabilities(model, source, target, edges(every, [1], [2]))
    again = trace(model, Request(source), target, changes=edges(every, [1], [2]))
    assert cut == pytest.approx(again.log_probabilities)


# ---- whose W_K and W_V -----------------------------------------------------------------------------------------------


def pairs(config, seed):
    return [ids.tolist() for ids in sources(config, [4, 4], seed)]


@max_examples(8, phases=FAST)
@given(config=configs(), seed=seeds)
def test_own_matrices_are_the_model_itself(config, seed):
    model, asked = talkative(config, seed).double(), pairs(config, seed)
    found = keys_values(model, asked)
    own = found.own
    assert own.own
    assert own.same == 2
    written = [one.tokens for [one] in search(PlainStepModel(model), [Request(ids) for ids in asked], Beam(size=1))]
    assert found.tokens == sum(map(len, written))
    likeliest = 0
    for source, target in zip(asked, written, strict=True):
        logits = model(torch.tensor([source]), torch.tensor([[config.bos_id, *target[:-1]]]))[0]
        likeliest += int((logits.argmax(-1) == torch.tensor(target)).sum())
    assert own.likeliest == likeliest
    assert len(found.rows) == 6
    for row in found.rows:
        if row.own:  # also by another name, as with one layer
            assert row.log_probability == own.log_probability
            assert (row.likeliest, row.same) == (own.likeliest, own.same)
    assert [row.own for row in found.rows[3:]] == [config.decoder_layers == 1] * 3
    assert (found.rows[2].choice.note == "") == (config.encoder_layers == config.decoder_layers)
    for one in found.matrices:
        assert max(one.differs) < 1e-9
        assert one.shared_k == one.shared_v == []
    assert found.matrices[0].from_first == 0
    assert in_words(found).endswith((".", "?"))


@max_examples(5, phases=FAST)
@given(config=configs(), seed=seeds)
def test_given_targets_are_scored_as_they_are(config, seed):
    model = talkative(config, seed).double()
    asked = pairs(config, seed)
    given_targets = [ids.tolist() for ids in targets(config, [3, 5], seed)[:, 1:]]
    given_targets = [[i for i in ids if i != config.pad_id] or [config.eos_id] for ids in given_targets]
    found = keys_values(model, asked, given_targets)
    scored = score(model, asked, given_targets)
    total = sum(one.log_probability for one in scored) / sum(map(len, given_targets))
    assert found.own.log_probability == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert found.given
    assert found.own.same == 2


@max_examples(6, phases=FAST)
@given(config=configs(decoder_layers=2), seed=seeds)
def test_matrices_that_are_one_in_memory_are_labelled_so(config, seed):
    """A model whose decoder layers share W_K and W_V: giving it "others" gives it its own."""
    model = talkative(config, seed)
    first, second = (layer.cross_attention for layer in model.decoder.layers)
    for letter in ("k_proj", "v_proj"):
        getattr(second, letter).weight = getattr(first, letter).weight
        getattr(second, letter).bias = getattr(first, letter).bias
    found = keys_values(model, pairs(config, seed))
    assert [row.own for row in found.rows] == [True, False, False, True, True, True]
    for row in found.rows[3:]:
        assert row.log_probability == found.own.log_probability
        assert row.same == 2
    assert found.matrices[1].shared_k == [cross(0)]
    assert found.matrices[1].shared_v == [cross(0)]
    assert found.matrices[1].from_first == 0
    assert "Each decoder layer uses its own" not in in_words(found)


@max_examples(10)
@given(config=configs(), seed=seeds)
def test_taking_others_matrices_is_having_them(config, seed):
    """The twin with the encoder's matrices = a model whose decoder truly holds them."""
    model = build(config, seed)
    ids = sources(config, [5], seed), targets(config, [4], seed)
    for choice in choices(config):
        other = build(config, seed)
        taken = [model.get_submodule(by) for by in choice.taken]
        for layer, by in zip(other.decoder.layers, taken, strict=True):
            for letter in ("k_proj", "v_proj"):
                mine, theirs = getattr(layer.cross_attention, letter), getattr(by, letter)
                mine.weight = nn.Parameter(theirs.weight.detach().clone())
                mine.bias = None if theirs.bias is None else nn.Parameter(theirs.bias.detach().clone())
        torch.testing.assert_close(with_matrices(model, choice)(*ids), other(*ids))


def test_streets_own_matrices_are_best_by_far():
    translator = load("street")
    sentences = [SEEDS_SENTENCE, "The dog crossed the river because it was very brave.", "It was icy. The cat saw it."]
    found = keys_values(translator.model, [translator.tokenizer.encode(text, "source") for text in sentences])
    assert found.own.same == 3
    assert all(row.log_probability < found.own.log_probability - 0.3 for row in found.others)
    assert all(row.likeliest < found.own.likeliest for row in found.others)
    assert all(abs(cosine) < 0.1 for one in found.matrices for cosine in one.cosine_encoder)
    assert in_words(found).startswith("Each decoder layer uses its own W_K and W_V on the encoder's output")


def test_no_sentence_is_refused():
    with pytest.raises(InputError, match="no sentence to ask about"):
        keys_values(load("street").model, [])
