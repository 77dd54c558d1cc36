"""Interventions: each is compared with the same change made to the weights or the inputs by hand."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer import Translator, load
from glassformer.decoding import Beam, Request, search
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import InputError
from glassformer.evaluation import score
from glassformer.inspection import inspect
from glassformer.inspection.interventions.changes import (
    AverageHead,
    ForcePrefix,
    RemoveEdge,
    RemoveHead,
    ReplaceMatrices,
    ReplaceToken,
    SkipFeedForward,
    UniformAttention,
    attentions,
)
from glassformer.inspection.interventions.what_if import rank_heads, what_if
from glassformer.inspection.tracing.trace_builder import trace
from glassformer.model import taps
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources, targets
from tests.small_translator import model as small_model
from tests.small_translator import tokenizer as small_tokenizer

SEARCH = Beam(size=2, max_length_ratio=0.5, max_length_extra=4)


def one(config, seed) -> Request:
    return Request(sources(config, [6], seed)[0].tolist())


def target_of(config, seed) -> list[int]:
    return [*targets(config, [4], seed)[0].tolist()[1:], config.eos_id]


def chosen(model, draw):
    """An attention of the model and a head of it."""
    names = attentions(model)
    return names[draw % len(names)], draw % model.config.n_heads


def logits(model, config, seed, *changes):
    return trace(model, one(config, seed), target_of(config, seed), changes=changes)["logits"]


def attention(model, name):
    return model.get_submodule(name)


@max_examples(20)
@given(configs(), seeds)
def test_no_change_changes_nothing_and_the_model_is_left_alone(config, seed):
    model = build(config, seed)
    before = trace(model, one(config, seed), search=SEARCH)
    after = what_if(model, before, [])
    assert torch.equal(after.after["logits"], before["logits"])
    assert after.differences == [0] * before.steps
    assert after.changed_words == []
    weights = copy.deepcopy(model.state_dict())
    what_if(model, before, [RemoveHead(at="decoder.layers.0.cross_attention", head=0)])
    assert not any(tap.has_listeners for tap in taps(model).values())
    assert all(torch.equal(weights[name], now) for name, now in model.state_dict().items())


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100))
@torch.no_grad()
def test_removing_a_head_equals_zeroing_its_columns_of_w_o(config, seed, draw):
    model = build(config, seed)
    name, head = chosen(model, draw)
    removed = logits(model, config, seed, RemoveHead(at=name, head=head))
    width = config.d_head
    attention(model, name).out_proj.weight[:, head * width : (head + 1) * width] = 0
    torch.testing.assert_close(removed, logits(model, config, seed))


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100))
def test_an_averaged_head_has_its_mean_everywhere(config, seed, draw):
    model = build(config, seed)
    name, head = chosen(model, draw)
    before = trace(model, one(config, seed), search=SEARCH)
    after = trace(model, one(config, seed), search=SEARCH, changes=[AverageHead(at=name, head=head)])
    context = after[f"{name}.context"][head]
    mean = before[f"{name}.context"][head].mean(0)
    torch.testing.assert_close(context, mean.expand_as(context))


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100))
def test_a_cut_edge_has_weight_0_and_the_others_are_renormalised(config, seed, draw):
    model = build(config, seed)
    name, head = chosen(model, draw)
    change = RemoveEdge(at=name, query=2, key=draw % 3, head=head)
    before = trace(model, one(config, seed), target_of(config, seed))
    after = trace(model, one(config, seed), target_of(config, seed), changes=[change])
    scores = before[f"{name}.scores"][head, 2].clone()
    scores[change.key] = -math.inf
    torch.testing.assert_close(after[f"{name}.weights"][head, 2], scores.softmax(-1))
    assert after[f"{name}.weights"][head, 2, change.key] == 0
    others = [row for row in range(len(before[f"{name}.weights"][head])) if row != 2]
    torch.testing.assert_close(after[f"{name}.weights"][head, others], before[f"{name}.weights"][head, others])


def test_the_only_edge_of_a_position_cannot_be_removed():
    model = small_model()
    before = trace(model, Request([5, 6, 2]), [7, 2])
    with pytest.raises(InputError, match="attends to position 0 only: this edge cannot be removed"):
        what_if(model, before, [RemoveEdge(at="decoder.layers.0.self_attention", query=0, key=0)])


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100), st.booleans())
def test_uniform_attention_weights_all_visible_positions_equally(config, seed, draw, every_head):
    model = build(config, seed)
    name, head = chosen(model, draw)
    change = UniformAttention(at=name, head=None if every_head else head)
    after = trace(model, one(config, seed), target_of(config, seed), changes=[change])
    seen = after[f"{name}.scores"][head] > -math.inf
    torch.testing.assert_close(after[f"{name}.weights"][head], seen.double() / seen.sum(-1, keepdim=True))


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100))
@torch.no_grad()
def test_skipping_a_feed_forward_equals_zeroing_its_output(config, seed, draw):
    model = build(config, seed)
    layers = [
        f"{stack}.layers.{i}" for stack in ("encoder", "decoder") for i in range(len(getattr(model, stack).layers))
    ]
    name = layers[draw % len(layers)]
    skipped = logits(model, config, seed, SkipFeedForward(at=name))
    last = model.get_submodule(f"{name}.feed_forward.down_proj")
    last.weight.zero_()
    if last.bias is not None:
        last.bias.zero_()
    torch.testing.assert_close(skipped, logits(model, config, seed))


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100), st.integers(0, 100))
@torch.no_grad()
def test_replaced_matrices_equal_copied_matrices(config, seed, draw, other):
    model = build(config, seed)
    (name, _), (by, _) = chosen(model, draw), chosen(model, other)
    replaced = logits(model, config, seed, ReplaceMatrices(at=name, by=by))
    for letter in "kv":
        projection, other_projection = (getattr(attention(model, which), f"{letter}_proj") for which in (name, by))
        projection.load_state_dict(other_projection.state_dict())
    torch.testing.assert_close(replaced, logits(model, config, seed))


@max_examples(20)
@given(configs(decoder_layers=2), seeds)
@torch.no_grad()
def test_two_attentions_can_swap_their_matrices(config, seed):
    """Each uses the other's original matrices, not its replaced ones."""
    model = build(config, seed)
    one_, two = (f"decoder.layers.{i}.cross_attention" for i in range(2))
    swapped = logits(model, config, seed, ReplaceMatrices(at=one_, by=two), ReplaceMatrices(at=two, by=one_))
    for letter in "kv":
        projection, other_projection = (getattr(attention(model, which), f"{letter}_proj") for which in (one_, two))
        old = copy.deepcopy(projection.state_dict())
        projection.load_state_dict(other_projection.state_dict())
        other_projection.load_state_dict(old)
    torch.testing.assert_close(swapped, logits(model, config, seed))


@max_examples(20)
@given(configs(), seeds)
def test_other_tokens_are_another_source_and_a_prefix_is_kept(config, seed):
    model, request = build(config, seed), one(config, seed)
    usual = [token for token in range(config.source_vocab_size) if token != config.pad_id]
    change = ReplaceToken(position=1, count=2, ids=usual[:3])
    after = trace(model, request, target_of(config, seed), changes=[change])
    source = [request.source[0], *usual[:3], *request.source[3:]]
    assert after.about.source.ids == source
    assert after.about.asked.ids == request.source
    assert torch.equal(after["logits"], trace(model, Request(source), target_of(config, seed))["logits"])
    first = next(token for token in range(config.vocab_size) if token not in (config.pad_id, config.eos_id))
    forced = what_if(model, trace(model, request, search=SEARCH), [ForcePrefix(ids=[first, first])]).after
    assert forced.about.target.ids[:2] == [first, first]


@max_examples(20)
@given(configs(), seeds, st.integers(0, 100), st.integers(0, 100))
def test_what_ifs_compose(config, seed, draw, other):
    """Applied one after another or all at once, the result is the same; and in any order, if they are independent."""
    model = build(config, seed)
    before = trace(model, one(config, seed), search=SEARCH)
    name, head = chosen(model, draw)
    a = RemoveHead(at=name, head=head)
    b = UniformAttention(at=chosen(model, other)[0])
    c = ReplaceToken(position=0, ids=[before.about.source.ids[1]])
    together = trace(model, one(config, seed), search=SEARCH, changes=[a, b, c])
    in_turn = what_if(model, what_if(model, what_if(model, before, [a]).after, [b]).after, [c]).after
    assert in_turn.about == together.about
    assert torch.equal(in_turn["logits"], together["logits"])
    reordered = trace(model, one(config, seed), together.about.target.ids, search=SEARCH, changes=[c, b, a])
    torch.testing.assert_close(reordered["logits"], together["logits"])


@max_examples(20)
@given(configs(), seeds)
def test_a_change_that_names_positions_is_searched_without_a_cache_and_finds_the_same(config, seed):
    """Cutting an edge beyond the end of the sentence has no effect."""
    model, request = build(config, seed), one(config, seed)
    far = RemoveEdge(at="decoder.layers.0.cross_attention", query=500, key=0)
    [[best]] = search(PlainStepModel(model), [request], SEARCH)
    traced = trace(model, request, search=SEARCH, changes=[far])
    assert sum(traced.log_probabilities) == pytest.approx(best.log_probability, rel=1e-9, abs=1e-9)


@max_examples(15)
@given(configs(encoder_layers=1, decoder_layers=1), seeds)
@torch.no_grad()
def test_a_head_without_output_has_loss_0(config, seed):
    model = build(config, seed)
    attention(model, "decoder.layers.0.cross_attention").out_proj.weight[:, : config.d_head] = 0
    texts = [one(config, seed).source, one(config, seed + 1).source]
    ranked = rank_heads(model, texts, [target_of(config, seed), target_of(config, seed + 1)])
    losses = [head.loss for head in ranked]
    assert losses == sorted(losses, reverse=True)
    assert len(ranked) == config.n_heads * len(attentions(model))
    [dead] = [head for head in ranked if (head.at, head.head) == ("decoder.layers.0.cross_attention", 0)]
    assert dead.loss == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (RemoveHead(at="decoder.layers.9.cross_attention", head=0), "no attention 'decoder.layers.9.cross_attention'"),
        (
            RemoveHead(at="decoder.layers.0.cross_attention", head=7),
            r"Head 7 of decoder.layers.0.cross_attention is out of range \(0 to 1\)",
        ),
        (SkipFeedForward(at="decoder"), "decoder has no feed-forward"),
        (ReplaceMatrices(at="decoder.layers.0.cross_attention", by="encoder"), "no attention 'encoder'"),
        (ReplaceToken(position=90, ids=[5]), r"Source position 90 is out of range \(0 to 2\)"),
    ],
)
def test_what_the_model_does_not_have_is_named(change, words):
    with pytest.raises(InputError, match=words):
        trace(small_model(), Request([5, 6, 2]), [7, 2], changes=[change])


@pytest.fixture(scope="module")
def street() -> Translator:
    return load("street")


SENTENCE = "The animal didn't cross the street because it was too tired."


def test_what_if_tired_were_wide(street):
    before = inspect(street).trace(SENTENCE)
    assert before.translation == street(SENTENCE)
    tired_or_wide = inspect(street).what_if(before, inspect(street).word_replacement(before, "tired", "wide"))
    assert tired_or_wide.changed_words == [("es", "sie"), ("müde", "breit")]
    assert tired_or_wide.after.text == SENTENCE.replace("tired", "wide")
    pronoun = before.target.index("▁es")
    assert tired_or_wide.differences[pronoun] < -1
    with pytest.raises(InputError, match="'horse' does not occur in"):
        inspect(street).word_replacement(before, "horse", "dog")


def test_a_changed_translator_can_be_scored(street):
    sources_ = [SENTENCE, SENTENCE.replace("tired", "wide")]
    references = street.translate(sources_)
    at = "decoder.layers.1.cross_attention"
    without = inspect(street).changed_translator(
        *(RemoveHead(at=at, head=head) for head in range(street.model.config.n_heads))
    )
    assert score(without.translate(sources_), references).chrf < score(references, references).chrf
    assert street.translate(sources_) == references, "the original translator is unchanged"
    assert inspect(street).changed_translator().translate(sources_) == references
    averaged = inspect(street).changed_translator(AverageHead(at=at, head=0), average_over=sources_)
    assert len(averaged.translate(sources_)) == 2
    with pytest.raises(InputError, match="needs sentences to average over: pass them as average_over="):
        inspect(street).changed_translator(AverageHead(at=at, head=0))
    with pytest.raises(InputError, match="use `what_if` with its trace"):
        inspect(street).changed_translator(RemoveEdge(at=at, query=0, key=0))


def test_a_text_can_be_traced_with_a_given_target():
    translator = Translator(small_model(), small_tokenizer())
    traced = inspect(translator).trace("The dog slept.", "Der Hund schlief.")
    assert traced.translation == "Der Hund schlief."
    assert traced.log_probabilities == pytest.approx(
        translator.score(["The dog slept."], ["Der Hund schlief."])[0].log_probabilities, abs=1e-5
    )
    assert len(inspect(translator).trace("The dog slept.", "Der Hund schlief.", steps=2).target) == 2
    with pytest.raises(InputError, match=r"the limit is 512\. Trace a part"):
        inspect(translator).trace("dog " * 1000)
