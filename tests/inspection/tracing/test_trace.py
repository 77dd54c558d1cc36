"""Traces hold the tensors that the model computes: the forward pass, decoding steps, the search tree, trace files."""

import contextlib
import json
import math
import random
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from glassformer.decoding import Beam, Request, search
from glassformer.decoding.search_tree import search_tree
from glassformer.engine.torch_step_model import PlainStepModel, score
from glassformer.errors import DirectoryError, GlassformerError, InputError
from glassformer.inspection import Trace, record
from glassformer.inspection.tracing.trace_builder import trace
from glassformer.model import ModelConfig, taps
from glassformer.model.attention import merge_heads, split_heads
from tests.examples import max_examples
from tests.models import build, build_source_sensitive, configs, seeds, sources
from tests.small_translator import model as small_model
from tests.small_translator import tokenizer as small_tokenizer

short = {"max_length_ratio": 0.5, "max_length_extra": 5}
beams = st.sampled_from([Beam(size=1, **short), Beam(size=3, **short), Beam(size=4, n_best=3, **short)])


def request_for(config, seed) -> Request:
    """A sentence of six tokens."""
    return Request(sources(config, [6], seed)[0].tolist())


def logits_of(model, request, target):
    """The model's logits for a target, without tracing."""
    return model(torch.tensor([request.source]), torch.tensor([[model.config.bos_id, *target[:-1]]]))[0]


@max_examples(40)
@given(configs(), seeds, st.sampled_from([torch.float64, torch.float32]))
@torch.no_grad()
def test_tracing_changes_no_bit_and_leaves_the_model_alone(config, seed, dtype):
    model, request = build(config, seed, dtype), request_for(config, seed)
    traced = trace(model, request, search=Beam(size=2, **short))
    assert torch.equal(traced["logits"], logits_of(model, request, traced.about.target.ids))
    assert not any(tap.has_listeners for tap in taps(model).values())
    assert (
        traced.about.shared.keys() | dict(model.named_parameters()).keys()
        == dict(model.named_parameters(remove_duplicate=False)).keys()
    )


@max_examples(30)
@given(configs(), seeds)
@torch.no_grad()
def test_every_tap_is_there_with_its_axes(config, seed):
    model, request = build(config, seed), request_for(config, seed)
    traced = trace(model, request, search=Beam(size=1, **short))
    sizes = {"S": len(request.source), "T": traced.steps, "D": config.d_model, "H": config.n_heads}
    sizes |= {"K": config.d_head, "F": config.d_ff, "V": config.vocab_size}
    assert taps(model).keys() <= set(traced)
    for name in taps(model):
        assert list(traced[name].shape) == [sizes[letter] for letter in traced.axes(name)], name
    assert len(traced.source) == sizes["S"]
    assert len(traced.target) == len(traced.reads) == sizes["T"]


@max_examples(30)
@given(configs(), seeds, st.sampled_from([0.0, 0.1, 0.5]))
@torch.no_grad()
def test_the_training_loss_can_be_recomputed_from_a_trace(config, seed, smoothing):
    """log Z - (1 - ε) z[written] - ε mean(z), at each position."""
    traced = trace(build(config, seed), request_for(config, seed), search=Beam(size=1, **short))
    normaliser, mean = traced["output.log_normaliser"], traced["output.mean_logit"]
    written = traced["output.log_probability"] + normaliser
    loss = normaliser - (1 - smoothing) * written - smoothing * mean
    target = torch.tensor(traced.about.target.ids)
    expected = cross_entropy(traced["logits"], target, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)


@max_examples(30)
@given(configs(), seeds)
@torch.no_grad()
def test_attention_can_be_recomputed_from_a_trace(config, seed):
    """Weights sum to 1, z = weights v, the heads' contributions sum to the output, K and V come from the memory."""
    model = build(config, seed)
    traced = trace(model, request_for(config, seed), search=Beam(size=1, **short))
    modules = dict(model.named_modules())
    for name in traced.attentions:
        attention = modules[name]
        weights, v, context = (traced[f"{name}.{part}"] for part in ("weights", "v", "context"))
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        torch.testing.assert_close(weights @ v, context)
        heads_out, output = traced[f"{name}.heads_out"], traced[f"{name}.output"]
        bias = 0 if attention.out_proj.bias is None else attention.out_proj.bias
        torch.testing.assert_close(heads_out.sum(0) + bias, output)
        torch.testing.assert_close(attention.out_proj(merge_heads(context[None]))[0], output)
        torch.testing.assert_close(traced[f"{name}.heads_out_norm"], heads_out.norm(dim=-1))
        if name.endswith("cross_attention"):
            for letter in "kv":
                projection = getattr(attention, f"{letter}_proj")
                recomputed = split_heads(projection(traced["memory"][None]), config.n_heads)[0]
                torch.testing.assert_close(traced[f"{name}.{letter}"], recomputed, rtol=0, atol=1e-6)


@max_examples(40)
@given(configs(), seeds)
@torch.no_grad()
def test_a_cached_step_computes_what_the_trace_has(config, seed):
    """Every decoder tap, step by step, is a row of the trace; both caches are what `Trace.step` shows."""
    model, request = build(config, seed), request_for(config, seed)
    traced = trace(model, request, search=Beam(size=1, **short))
    names = [name for name in taps(model) if name.startswith("decoder.") and "T" in traced.axes(name)]
    with record(model) as recording:
        state = model.start(torch.tensor([request.source]))
        computed_before = len(recording.all("decoder.layers.0.cross_attention.k"))
        for number, token in enumerate([config.bos_id, *traced.about.target.ids[:-1]]):
            model.step(torch.tensor([[token]]), state)
            step = traced.step(number)
            for i, past in enumerate(step.past):
                if config.decoder_ssru:
                    torch.testing.assert_close(state.past[i].cell[0], past)
                else:
                    assert past.k.shape[1] == number + 1 == step.computed + step.reused
            for name in names:
                letters = traced.axes(name)
                expected = traced[name].narrow(letters.index("T"), number, 1)
                if letters.count("T") == 2:  # as many keys as positions so far
                    expected = expected[..., : number + 1]
                now = recording[name][0] if recording.axes(name)[0] == "B" else recording[name]
                torch.testing.assert_close(now, expected, rtol=1e-7, atol=1e-7)
    assert computed_before == 1
    for i, keys_values in enumerate(traced.step(0).source):
        torch.testing.assert_close(state.source[i].k[0], keys_values.k)
        torch.testing.assert_close(state.source[i].v[0], keys_values.v)


@max_examples(100)
@given(configs(), seeds, beams)
def test_the_tree_holds_every_hypothesis_and_its_score(config, seed, beam):
    """In float64: in float32, scores of a pre-norm model with d_model 2 differed by 3e-4 from scoring all at once."""
    model, request = build_source_sensitive(config, seed).double(), request_for(config, seed)
    [wanted] = search(PlainStepModel(model), [request], beam)
    found, tree = search_tree(PlainStepModel(model), request, beam)
    assert found == wanted
    assert [tree.hypothesis(node).tokens for node in tree.finished[: len(wanted)]] == [own.tokens for own in wanted]
    for node, own in zip(tree.finished, wanted, strict=False):
        assert tree.hypothesis(node).log_probabilities == own.log_probabilities
        assert tree.score[node] == pytest.approx(own.score)
    ended = [tree.hypothesis(node) for node in tree.finished]
    targets = [own.tokens for own in ended]
    for own, again in zip(
        ended, score(model, [request.source] * len(targets), targets, beam.length_penalty), strict=True
    ):
        assert own.log_probabilities == pytest.approx(again.log_probabilities, rel=1e-9, abs=1e-9)
        assert own.score == pytest.approx(again.score, rel=1e-9, abs=1e-9)


@max_examples(60)
@given(configs(), seeds, beams)
def test_a_tree_keeps_at_most_a_beam_per_step_with_a_reason_for_each_node(config, seed, beam):
    _, tree = search_tree(PlainStepModel(build_source_sensitive(config, seed)), request_for(config, seed), beam)
    parents = set(tree.parent)
    by_length: dict[int, list[str]] = {}
    for node in range(len(tree)):
        by_length.setdefault(len(tree.path(node)), []).append(tree.fate[node])
        assert tree.why(node)
        assert (node in parents) == (tree.fate[node] in ("start", "kept")), "only kept nodes have children"
    assert tree.fate.count("start") == 1
    for fates in by_length.values():
        assert sum(fate in ("kept", "abandoned") for fate in fates) <= beam.size
        assert fates.count("displaced") <= 1


@max_examples(12)
@given(configs(), seeds)
@torch.no_grad()
def test_any_hypothesis_can_be_followed_and_any_target_given(config, seed):
    model, request = build_source_sensitive(config, seed).double(), request_for(config, seed)
    beam = Beam(size=3, n_best=3, **short)
    best = trace(model, request, search=beam)
    for number, node in enumerate(best.tree.finished[:3]):
        followed = trace(model, request, search=beam, hypothesis=number)
        assert followed.about.target.ids == best.tree.tokens(node)
        found = best.tree.hypothesis(node).log_probabilities
        assert followed.log_probabilities == pytest.approx(found, rel=1e-9, abs=1e-9)
        given_ = trace(model, request, followed.about.target.ids)
        assert given_.tree is None
        assert torch.equal(given_["logits"], followed["logits"])
    for node in (1, len(best.tree) // 2, len(best.tree) - 1):  # kept or dropped, finished or not
        followed = trace(model, request, search=beam, node=node)
        assert followed.about.target.ids == best.tree.tokens(node)
        found = best.tree.hypothesis(node).log_probabilities
        assert followed.log_probabilities == pytest.approx(found, rel=1e-9, abs=1e-9)
    with pytest.raises(InputError, match=r"Node \d+ is out of range: the search tree has nodes 1 to \d+"):
        trace(model, request, search=beam, node=len(best.tree))
    with pytest.raises(InputError, match=r"Hypothesis \d+ is out of range.* A larger beam finishes more"):
        trace(model, request, search=beam, hypothesis=len(best.tree.finished))


@max_examples(20)
@given(configs(), seeds, st.sampled_from(["attention", "full", "everything"]), st.booleans())
@torch.no_grad()
def test_what_is_saved_is_read_again(tmp_path_factory, config, seed, detail, half):
    model = build_source_sensitive(config, seed)
    traced = trace(model, request_for(config, seed), search=Beam(size=3, **short))
    path = tmp_path_factory.mktemp("trace") / "one.safetensors"
    traced.save(path, detail, half, parameters=["decoder.layers.0.cross_attention.*"])
    again = Trace.load(path)
    assert again.tree == traced.tree
    about = ("same", "axes", "pieces")  # reduced to the stored tensors
    assert again.about.model_copy(update={name: getattr(traced.about, name) for name in about}) == traced.about
    assert again.log_probabilities == traced.log_probabilities
    for name in again:
        assert again.axes(name) == traced.axes(name)
        if half:
            torch.testing.assert_close(again[name].float(), traced[name].float(), rtol=2e-3, atol=1e-4)
        else:
            assert torch.equal(again[name], traced[name])
    assert {name.rpartition(".")[2] for name in again} >= {"weights"}
    assert (set(again) == set(traced)) == (detail == "everything")
    stored = again.parameter("decoder.layers.0.cross_attention.k_proj.weight")
    torch.testing.assert_close(
        stored.float(), model.decoder.layers[0].cross_attention.k_proj.weight, rtol=2e-3, atol=1e-4
    )
    assert again.parameter("encoder.layers.0.self_attention.k_proj.weight") is None
    if detail == "full":
        with pytest.raises(InputError, match=r"logits.*save it with detail='everything'"):
            again["logits"]


def test_an_unknown_tensor_or_step_is_named():
    traced = trace(build(ModelConfig(vocab_size=20, d_model=8, n_heads=2, d_ff=8)), Request([4, 5, 2]))
    with pytest.raises(InputError, match=r"has no tensor 'weights'. It has \d+ others, for example 'encoder.layers.0"):
        traced["weights"]
    with pytest.raises(InputError, match=r"Step 99 is out of range \(0 to \d+\)"):
        traced.step(99)


def test_some_steps_only():
    model = build(ModelConfig(vocab_size=20, d_model=8, n_heads=2, d_ff=8))
    traced = trace(model, Request([4, 5, 2]), [6, 7, 8, 2])
    some = trace(model, Request([4, 5, 2]), [6, 7, 8, 2], steps=2)
    assert some.steps == len(some.target) == len(some.reads) == 2
    torch.testing.assert_close(some["logits"], traced["logits"][:2])


def test_damaged_trace_files_raise_only_glassformer_errors(tmp_path):
    traced = trace(small_model(), Request(small_tokenizer().encode("The dog slept.", "source")), search=Beam(size=2))
    path = tmp_path / "whole"
    traced.save(path, "attention")
    contents = path.read_bytes()
    pick = random.Random(1)
    header = int.from_bytes(contents[:8], "little")
    broken = tmp_path / "broken"
    for _ in range(400):
        wrong = bytearray(contents)
        for _ in range(pick.randint(1, 4)):
            wrong[pick.randrange(8 + header + 200)] = pick.randrange(256)
        broken.write_bytes(wrong[: pick.choice([len(wrong), pick.randrange(len(wrong))])])
        with contextlib.suppress(GlassformerError):
            read = Trace.load(broken)
            for name in read:
                read[name]
            if read.tree is not None:
                [read.tree.path(node) for node in range(len(read.tree))]


@pytest.mark.parametrize(
    ("about", "words"),
    [
        (None, "without the metadata of a trace"),
        ("{", "its metadata is not JSON"),
        ("[]", "its metadata is not a JSON object"),
        ('{"format": 7}', "has format 7; this version reads format 1"),
        ('{"format": 1, "surprise": 1}', "surprise"),
        ('{"format": 1, "changes": [{"kind": "remove-head", "at": "x", "head": 0, "by": 1}]}', "changes"),
    ],
)
def test_other_files_are_told_apart(tmp_path, about, words):
    header = json.dumps({"__metadata__": {} if about is None else {"glassformer.trace": about}}).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(DirectoryError, match=words):
        Trace.load(tmp_path / "file")


def test_values_beyond_float16_keep_their_precision(tmp_path):
    config = ModelConfig(vocab_size=20, d_model=8, n_heads=2, d_ff=8)
    model = build(config, dtype=torch.float32)
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.up_proj.weight.mul_(1e7)
    traced = trace(model, Request([4, 5, 2]))
    name = "encoder.layers.0.feed_forward.hidden"
    assert traced[name].abs().max() > 65504
    traced.save(tmp_path / "half", half=True)
    again = Trace.load(tmp_path / "half")
    assert torch.equal(again[name], traced[name])
    assert again["encoder.input"].dtype is torch.float16
    masked = again["decoder.layers.0.self_attention.scores"]
    assert masked[0, 0, 1] == -math.inf
