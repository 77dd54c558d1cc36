"""Taps record what the model computes: every step can be recomputed from the recorded values."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.inspection import record
from glassformer.model import taps
from glassformer.model.attention import merge_heads, split_heads
from glassformer.model.dims import DIMENSIONS
from glassformer.model.position_kinds import position_kind
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources, targets


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def attentions(model):
    for name, module in model.named_modules():
        if name.endswith("_attention"):
            yield name, module


@max_examples(60)
@given(configs(), seeds)
@torch.no_grad()
def test_every_tap_has_one_value_per_forward_pass_with_the_shape_of_its_axes(config, seed):
    model = build(config, seed)
    source, target = sources(config, [6, 4, 1], seed), targets(config, [5, 3, 5], seed)
    sizes = {"B": 3, "S": 6, "T": 5} | {
        letter: getattr(config, dimension.field) for letter, dimension in DIMENSIONS.items() if dimension.field
    }
    with record(model) as recorded:
        model(source, target)
    assert list(recorded) != []
    assert set(recorded) == set(taps(model))
    for name in recorded:
        assert len(recorded.all(name)) == 1, name
        assert list(recorded[name].shape) == [sizes[letter] for letter in recorded.axes(name)], name


@max_examples(80)
@given(configs(), seeds, st.sampled_from([torch.float32, torch.float64]), st.booleans())
def test_listening_changes_no_bit_of_output_or_gradient(config, seed, dtype, training):
    """Nor of the random numbers that dropout draws."""
    model = build(config, seed, dtype).train(training)
    source, target = sources(config, [6, 4], seed), targets(config, [5, 5], seed)

    def forward_and_backward():
        torch.manual_seed(seed)
        model.zero_grad()
        logits = model(source, target)
        logits.sum().backward()
        return [logits, *(weight.grad for weight in model.parameters())]

    plain = forward_and_backward()
    with record(model):
        with_taps = forward_and_backward()
    assert all(torch.equal(one, other) for one, other in zip(plain, with_taps, strict=True))


@max_examples(80)
@given(configs(), seeds)
@torch.no_grad()
def test_attention_can_be_recomputed_from_its_taps(config, seed):
    """x → q, scores → weights → context → the heads' outputs → output: each from the one before."""
    model = build(config, seed)
    source, target = sources(config, [6, 4], seed), targets(config, [5, 5], seed)
    with record(model) as recorded:
        model(source, target)
    for name, attention in attentions(model):
        q, k, v = (recorded[f"{name}.{letter}"] for letter in "qkv")
        scores, weights = recorded[f"{name}.scores"], recorded[f"{name}.weights"]
        context, heads_out, output = (recorded[f"{name}.{part}"] for part in ("context", "heads_out", "output"))
        if not position_kind(config).rotates:  # which rotates q after the projection
            close(q, split_heads(attention.q_proj(recorded[f"{name}.input"]), config.n_heads))
        visible = scores.isfinite()
        if not position_kind(config).biases:
            scale = math.sqrt(config.d_head) if config.scale_scores else 1
            close(scores[visible], (q @ k.transpose(-2, -1) / scale)[visible])
        close(weights, scores.softmax(-1))
        assert torch.all(weights[~visible] == 0)
        close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        close(context, weights @ v)
        bias = 0 if attention.out_proj.bias is None else attention.out_proj.bias
        close(output, heads_out.sum(dim=1) + bias)
        close(output, attention.out_proj(merge_heads(context)))


@max_examples(60)
@given(configs(), seeds)
@torch.no_grad()
def test_the_stacks_can_be_recomputed_from_their_taps(config, seed):
    """Residuals add up, a layer's output is the next one's input, memory and logits are the recorded ones."""
    model = build(config, seed)
    source, target = sources(config, [6, 4], seed), targets(config, [5, 5], seed)
    with record(model) as recorded:
        logits = model(source, target)
    first_sublayer = "recurrence" if config.decoder_ssru else "self_attention"
    for stack, sublayers in (
        ("encoder", ("self_attention", "feed_forward")),
        ("decoder", (first_sublayer, "cross_attention", "feed_forward")),
    ):
        x = recorded[f"{stack}.input"]
        for i in range(len(getattr(model, stack).layers)):
            for sublayer in sublayers:
                name = f"{stack}.layers.{i}.{sublayer}"
                residual = recorded[f"{name}_norm.residual"]
                close(residual, x + recorded[f"{name}.output"])
                normed = recorded[f"{name}_norm.output"]
                close(recorded[f"{name}.input"], normed if config.norm_first else x)
                x = residual if config.norm_first else normed
            close(recorded[f"{stack}.layers.{i}.hidden"], x)
        top = recorded[f"{stack}.final_norm.output"] if config.norm_first else x
        close(top if stack == "decoder" else recorded["memory"], top)
    close(recorded["logits"], logits)
    top = top / math.sqrt(config.d_model) if config.scale_output else top
    close(logits, F.linear(top, model.output_projection.weight, model.output_projection.bias))


@max_examples(60)
@given(configs(decoder_ssru=True, positions="sinusoidal"), seeds)
@torch.no_grad()
def test_a_recurrence_can_be_recomputed_from_its_taps(config, seed):
    """Each cell is the mean of the candidate and the cell before it, weighted by the forget gate."""
    model = build(config, seed)
    with record(model, "decoder.*.recurrence.*") as recorded:
        model(sources(config, [6, 4], seed), targets(config, [5, 5], seed))
    for i, layer in enumerate(model.decoder.layers):
        x, new, forget, cells, y = (
            recorded[f"decoder.layers.{i}.recurrence.{tap}"]
            for tap in ("input", "candidate", "forget", "cell", "output")
        )
        unit = layer.recurrence
        close(new, x @ unit.candidate_proj.weight.T)
        close(forget, 1 / (1 + torch.exp(-(x @ unit.forget_proj.weight.T + unit.forget_proj.bias))))
        close(y, cells.clamp(min=0))
        before = F.pad(cells[:, :-1], (0, 0, 1, 0))
        close(cells, forget * before + (1 - forget) * new)


@max_examples(200)
@given(configs(), seeds)
@torch.no_grad()
def test_each_decoder_layer_makes_its_own_keys_and_values_of_the_memory_once_for_each_sentence(config, seed):
    """The README's question. K and V of layer l are memory W_K^l and memory W_V^l: not the encoder's, not layer 0's."""
    model = build(config, seed)
    source, target = sources(config, [6, 6], seed), targets(config, [5, 5], seed)
    with record(model, "memory", "encoder.*", "decoder.*_attention.[kv]") as recorded:
        state = model.start(source)
        for column in target.split(1, dim=1):
            model.step(column, state)

    assert len(recorded.all("memory")) == 1
    for i, layer in enumerate(model.decoder.layers):
        name = f"decoder.layers.{i}.cross_attention"
        attention = layer.cross_attention
        for letter, projection in (("k", attention.k_proj), ("v", attention.v_proj)):
            assert len(recorded.all(f"{name}.{letter}")) == 1, "made once, however many tokens are decoded"
            close(recorded[f"{name}.{letter}"], split_heads(projection(recorded["memory"]), config.n_heads))
            if not config.decoder_ssru:
                assert len(recorded.all(f"decoder.layers.{i}.self_attention.{letter}")) == target.shape[1]
        for other in (*model.encoder.layers, *model.decoder.layers[:i]):
            elsewhere = other.self_attention if other in model.encoder.layers else other.cross_attention
            assert attention.k_proj.weight is not elsewhere.k_proj.weight
            assert attention.v_proj.weight is not elsewhere.v_proj.weight
            if elsewhere is not attention:
                assert (recorded[f"{name}.k"] - elsewhere.keys_values(recorded["memory"]).k).abs().max() > 1e-9
