"""Attention steps can be recomputed; attribution measures; exchanging W_K and W_V of cross-attention."""

import math

import pytest
import torch
from hypothesis import Phase, given
from hypothesis import strategies as st
from torch import nn

from glassformer.decoding import Beam, Request, search
from glassformer.engine.torch_step_model import PlainStepModel, score
from glassformer.errors import InputError
from glassformer.inspection import Trace, inspect
from glassformer.inspection.explanation.attention_steps import walk
from glassformer.inspection.explanation.attribution import (
    attention_weights,
    edges,
    log_probabilities,
    rollout,
    weighted_values,
)
from glassformer.inspection.explanation.query_position import QueryPosition, check, choose, telling
from glassformer.inspection.explanation.token_lookup import find_token, is_word, plain
from glassformer.inspection.interventions.cross_attention_matrices import (
    choices,
    cross,
    exchange_matrices,
    in_words,
    with_matrices,
)
from glassformer.inspection.tracing.trace_builder import trace
from glassformer.loading import load
from tests.examples import max_examples
from tests.models import build, build_source_sensitive, configs, seeds, sources, targets

FAST = [Phase.explicit, Phase.reuse, Phase.generate]
"""Without shrinking: each example is a search with six models."""
SENTENCE = "The animal didn't cross the street because it was too tired."


def traced(config, seed, dtype=torch.float64):
    model = build(config, seed, dtype)
    source = sources(config, [5], seed)[0].tolist()
    target = targets(config, [5], seed)[0, 1:].tolist()
    return model, trace(model, Request(source), target)


@max_examples(25)
@given(config=configs(), seed=seeds, data=st.data())
def test_every_step_can_be_recomputed_from_the_one_before(config, seed, data):
    _, recorded = traced(config, seed)
    at = data.draw(st.sampled_from(recorded.attentions))
    place = QueryPosition(at, data.draw(st.integers(0, config.n_heads - 1)), data.draw(st.integers(0, 3)))
    way = walk(recorded, place)
    for step in way.steps:
        size = max(float(vector.numbers.abs().max()) for vector in step.vectors)
        assert step.differs is not None
        assert step.differs <= 1e-10 * max(1.0, size), step.name
    assert sum(key.weight for key in way.keys) == pytest.approx(1)
    is_causal = at.endswith("decoder.self_attention") or (place.stack == "decoder" and not place.crosses)
    assert way.hidden == (recorded.steps - 1 - place.position if is_causal else 0)


@max_examples(12)
@given(config=configs(), seed=seeds)
def test_what_the_steps_show_adds_up(config, seed):
    """From the vectors shown, without parameters: heads add up to the output, weighted values to z."""
    _, recorded = traced(config, seed)
    for at in recorded.attentions:
        way = walk(recorded, QueryPosition(at, 0, 1))
        *contributions, output = (vector.numbers for vector in way.step("output").vectors)
        torch.testing.assert_close(torch.stack(contributions).sum(0), output)
        z = torch.stack([key.weight * key.v for key in way.keys]).sum(0)
        torch.testing.assert_close(z, way.step("context").vectors[-1].numbers)
        products = torch.tensor([key.product * way.scale + key.bias for key in way.keys], dtype=torch.float64)
        torch.testing.assert_close(products, torch.tensor([key.score for key in way.keys], dtype=torch.float64))
        assert way.scale == (1 / math.sqrt(config.d_head) if config.scale_scores else 1.0)


@max_examples(12)
@given(config=configs(), seed=seeds, data=st.data())
def test_what_is_named_is_taken_and_the_rest_is_chosen(config, seed, data):
    _, recorded = traced(config, seed)
    at = data.draw(st.sampled_from([None, *recorded.attentions]))
    head = data.draw(st.sampled_from([None, *range(config.n_heads)]))
    place = choose(recorded, at=at, head=head)
    assert at in (None, place.at)
    assert head in (None, place.head)
    walk(recorded, place)


def test_a_trace_saved_without_parameters_marks_what_cannot_be_recomputed(tmp_path):
    recorded = inspect(load("street")).trace(SENTENCE, beam=1)
    recorded.save(tmp_path / "trace", detail="everything")
    way = walk(Trace.load(tmp_path / "trace"), QueryPosition("encoder.layers.0.self_attention", 1, 10))
    recomputed = {step.name for step in way.steps if step.differs is not None}
    assert {"scores", "softmax", "context", "residual"} <= recomputed
    assert not {"embedding", "query", "keys", "values", "share"} & recomputed


def test_the_default_query_is_it_and_target_words_are_found_in_the_decoder():
    recorded = inspect(load("street")).trace(SENTENCE, beam=1)
    assert recorded.source[choose(recorded).position] == "▁it"
    place = choose(recorded, "es")
    assert recorded.target[place.position] == "▁es"
    assert place.crosses
    way = walk(recorded, place)
    assert (way.piece, way.writes) == ("▁weil", "▁es")
    assert max(way.keys, key=lambda key: key.weight).piece == "▁animal"


@max_examples(12)
@given(config=configs(), seed=seeds)
def test_every_trace_has_a_place_to_look_at_first(config, seed):
    _, recorded = traced(config, seed)
    place = telling(recorded)
    check(recorded, place)
    assert walk(recorded, place).keys


def test_the_place_to_look_at_first_is_a_pronoun_that_looks_back_at_its_noun():
    """Or else an article at its noun."""
    inspector = inspect(load("street"))
    for text, pronoun, noun in (
        (SENTENCE, "es", "animal"),
        ("The dog didn't enter the garden because it was too tired.", "er", "dog"),
        ("The street was too wide.", "Die", "street"),
    ):
        recorded = inspector.trace(text)
        shown = walk(recorded, telling(recorded))
        best = max(shown.keys, key=lambda key: key.weight)
        assert (plain(shown.writes), plain(best.piece)) == (pronoun, noun)


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
        (
            QueryPosition("encoder.layers.0.self_attention", 4, 0),
            r"Head 4 of encoder.layers.0.self_attention is out of range \(0 to 3\)",
        ),
        (
            QueryPosition("encoder.layers.0.self_attention", 0, 99),
            r"Position 99 of encoder.layers.0.self_attention is out of range \(0 to 15\)",
        ),
    ],
)
def test_an_invalid_query_position_is_an_error(place, says):
    recorded = inspect(load("street")).trace(SENTENCE, beam=1)
    with pytest.raises(InputError, match=says):
        walk(recorded, place)


@given(config=configs(decoder_ssru=True, positions="sinusoidal"), seed=seeds)
@max_examples(3)
def test_a_recurrent_decoder_has_no_self_attention_to_explain(config, seed):
    _, recorded = traced(config, seed)
    with pytest.raises(InputError, match=r"no self-attention.*SSRU"):
        choose(recorded, at="decoder.layers.0.self_attention")
    walk(recorded, choose(recorded, at="decoder.layers.0.cross_attention"))


# ---- attribution -----------------------------------------------------------------------------------------------------


@max_examples(12)
@given(config=configs(), seed=seeds)
def test_attribution_to_all_tokens_is_complete(config, seed):
    model, recorded = traced(config, seed)
    for at in recorded.attentions:
        all_keys = range(recorded[f"{at}.v"].shape[1])
        torch.testing.assert_close(
            attention_weights(recorded, at, [1, 2], all_keys), torch.ones(config.n_heads, dtype=torch.float64)
        )
        output = recorded[f"{at}.output"][1]
        bias = recorded.parameter(f"{at}.out_proj.bias")
        whole = output if bias is None else output - bias
        assert weighted_values(recorded, at, [1], all_keys) == pytest.approx(float(whole.norm()))
        assert weighted_values(recorded, at, [1], []) == 0
    torch.testing.assert_close(rollout(recorded).sum(1), torch.ones(len(recorded.source), dtype=torch.float64))
    source, target = recorded.about.source.ids, recorded.about.target.ids
    assert log_probabilities(model, source, target, edges([], [0], [1])) == pytest.approx(recorded.log_probabilities)
    every = [at for at in recorded.attentions if not at.startswith("decoder") or at.endswith("cross_attention")]
    cut = log_probabilities(model, source, target, edges(every, [1], [2]))
    again = trace(model, Request(source), target, changes=edges(every, [1], [2]))
    assert cut == pytest.approx(again.log_probabilities)


# ---- exchanged W_K and W_V -------------------------------------------------------------------------------------------


def pairs(config, seed):
    return [ids.tolist() for ids in sources(config, [4, 4], seed)]


@max_examples(8, phases=FAST)
@given(config=configs(), seed=seeds)
def test_with_its_own_matrices_the_model_is_unchanged(config, seed):
    model, batch = build_source_sensitive(config, seed).double(), pairs(config, seed)
    results = exchange_matrices(model, batch)
    own = results.own
    assert own.own
    assert own.same == 2
    written = [one.tokens for [one] in search(PlainStepModel(model), [Request(ids) for ids in batch], Beam(size=1))]
    assert results.tokens == sum(map(len, written))
    likeliest = 0
    for source, target in zip(batch, written, strict=True):
        logits = model(torch.tensor([source]), torch.tensor([[config.bos_id, *target[:-1]]]))[0]
        likeliest += int((logits.argmax(-1) == torch.tensor(target)).sum())
    assert own.likeliest == likeliest
    assert len(results.rows) == 6
    for row in results.rows:
        if row.own:  # also under another name, as with one layer
            assert row.log_probability == own.log_probability
            assert (row.likeliest, row.same) == (own.likeliest, own.same)
    assert [row.own for row in results.rows[3:]] == [config.decoder_layers == 1] * 3
    assert (results.rows[2].choice.note == "") == (config.encoder_layers == config.decoder_layers)
    for one in results.matrices:
        assert max(one.differs) < 1e-9
        assert one.shared_k == one.shared_v == []
    assert results.matrices[0].from_first == 0
    assert in_words(results).endswith((".", "?"))


@max_examples(5, phases=FAST)
@given(config=configs(), seed=seeds)
def test_given_targets_are_scored_as_they_are(config, seed):
    model = build_source_sensitive(config, seed).double()
    batch = pairs(config, seed)
    given_targets = [ids.tolist() for ids in targets(config, [3, 5], seed)[:, 1:]]
    given_targets = [[i for i in ids if i != config.pad_id] or [config.eos_id] for ids in given_targets]
    results = exchange_matrices(model, batch, given_targets)
    scored = score(model, batch, given_targets)
    total = sum(one.log_probability for one in scored) / sum(map(len, given_targets))
    assert results.own.log_probability == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert results.given
    assert results.own.same == 2


@max_examples(6, phases=FAST)
@given(config=configs(decoder_layers=2), seed=seeds)
def test_matrices_that_share_memory_are_labelled_so(config, seed):
    """If the decoder layers share W_K and W_V, the other layer's matrices are a layer's own."""
    model = build_source_sensitive(config, seed)
    first, second = (layer.cross_attention for layer in model.decoder.layers)
    for letter in ("k_proj", "v_proj"):
        getattr(second, letter).weight = getattr(first, letter).weight
        getattr(second, letter).bias = getattr(first, letter).bias
    results = exchange_matrices(model, pairs(config, seed))
    assert [row.own for row in results.rows] == [True, False, False, True, True, True]
    for row in results.rows[3:]:
        assert row.log_probability == results.own.log_probability
        assert row.same == 2
    assert results.matrices[1].shared_k == [cross(0)]
    assert results.matrices[1].shared_v == [cross(0)]
    assert results.matrices[1].from_first == 0
    assert "Each decoder layer uses its own" not in in_words(results)


@max_examples(10)
@given(config=configs(), seed=seeds)
def test_exchanged_matrices_equal_copied_matrices(config, seed):
    """A weight-sharing copy with the encoder's matrices equals a model whose decoder holds them."""
    model = build(config, seed)
    ids = sources(config, [5], seed), targets(config, [4], seed)
    for choice in choices(config):
        other = build(config, seed)
        taken = [model.get_submodule(by) for by in choice.taken]
        for layer, by in zip(other.decoder.layers, taken, strict=True):
            for letter in ("k_proj", "v_proj"):
                projection, source = getattr(layer.cross_attention, letter), getattr(by, letter)
                projection.weight = nn.Parameter(source.weight.detach().clone())
                projection.bias = None if source.bias is None else nn.Parameter(source.bias.detach().clone())
        torch.testing.assert_close(with_matrices(model, choice)(*ids), other(*ids))


def test_streets_own_matrices_are_best_by_far():
    translator = load("street")
    sentences = [SENTENCE, "The dog crossed the river because it was very brave.", "It was icy. The cat saw it."]
    results = exchange_matrices(translator.model, [translator.tokenizer.encode(text, "source") for text in sentences])
    assert results.own.same == 3
    assert all(row.log_probability < results.own.log_probability - 0.3 for row in results.others)
    assert all(row.likeliest < results.own.likeliest for row in results.others)
    assert all(abs(cosine) < 0.1 for one in results.matrices for cosine in one.cosine_encoder)
    assert in_words(results).startswith("Each decoder layer uses its own W_K and W_V on the encoder's output")


def test_no_sentence_is_refused():
    with pytest.raises(InputError, match="There are no sentences: give at least one"):
        exchange_matrices(load("street").model, [])
