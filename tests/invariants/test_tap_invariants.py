"""What the taps say is what the model computes: every step can be redone from the numbers heard."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.inspection import record
from glassformer.model import taps
from glassformer.model.attention import merge_heads, split_heads
from glassformer.model.dims import DIMENSIONS
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
def test_every_tap_speaks_once_in_a_forward_pass_with_the_shape_its_axes_say(config, seed):
    model = build(config, seed)
    source, target = sources(config, [6, 4, 1], seed), targets(config, [5, 3, 5], seed)
    sizes = {"B": 3, "S": 6, "T": 5} | {
        letter: getattr(config, dimension.field) for letter, dimension in DIMENSIONS.items() if dimension.field
    }
    with record(model) as heard:
        model(source, target)
    assert list(heard) != []
    assert set(heard) == set(taps(model))
    for name in heard:
        assert len(heard.all(name)) == 1, name
        assert list(heard[name].shape) == [sizes[letter] for letter in heard.axes(name)], name


@max_examples(80)
@given(configs(), seeds, st.sampled_from([torch.float32, torch.float64]), st.booleans())
def test_listening_changes_no_bit_of_output_or_gradient(config, seed, dtype, training):
    """Not even of what dropout draws."""
    model = build(config, seed, dtype).train(training)
    source, target = sources(config, [6, 4], seed), targets(config, [5, 5], seed)

    def passed():
        torch.manual_seed(seed)
        model.zero_grad()
        logits = model(source, target)
        logits.sum().backward()
        return [logits, *(weight.grad for weight in model.parameters())]

    alone = passed()
    with record(model):
        heard = passed()
    assert all(torch.equal(one, other) for one, other in zip(alone, heard, strict=True))


@max_examples(80)
@given(configs(), seeds)
@torch.no_grad()
def test_attention_can_be_redone_from_what_its_taps_say(config, seed):
    """x → q, scores → weights → context → the heads' shares → output: each from the one before."""
    model = build(config, seed)
    source, target = sources(config, [6, 4], seed), targets(config, [5, 5], seed)
    with record(model) as heard:
        model(source, target)
    for name, attention in attentions(model):
        q, k, v = (heard[f"{name}.{letter}"] for letter in "qkv")
        scores, weights = heard[f"{name}.scores"], heard[f"{name}.weights"]
        context, shares, output = (heard[f"{name}.{part}"] for part in ("context", "heads_out", "output"))
        if config.positions != "rotary":  # there, q is turned after the projection
            close(q, split_heads(attention.q_proj(heard[f"{name}.input"]), config.n_heads))
        seen = scores.isfinite()
        if config.positions != "relative":
            scale = math.sqrt(config.d_head) if config.scale_scores else 1
            close(scores[seen], (q @ k.transpose(-2, -1) / scale)[seen])
        close(weights, scores.softmax(-1))
        assert torch.all(weights[~seen] == 0)
        close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        close(context, weights @ v)
        bias = 0 if attention.out_proj.bias is None else attention.out_proj.bias
        close(output, shares.sum(dim=1) + bias)
        close(output, attention.out_proj(merge_heads(context)))


@max_examples(60)
@given(configs(), seeds)
@torch.no_grad()
def test_the_stacks_can_be_redone_from_what_their_taps_say(config, seed):
    """Residuals add up, norms normalise, layers hand on, the memory and the logits are what they say."""
    model = build(config, seed)
    source, target = sources(config, [6, 4], seed), targets(config, [5, 5], seed)
    with record(model) as heard:
        logits = model(source, target)
    looks_back = "recurrence" if config.decoder_ssru else "self_attention"
    for stack, sublayers in (
        ("encoder", ("self_attention", "feed_forward")),
        ("decoder", (looks_back, "cross_attention", "feed_forward")),
    ):
        x = heard[f"{stack}.input"]
        for i in range(len(getattr(model, stack).layers)):
            for sublayer in sublayers:
                name = f"{stack}.layers.{i}.{sublayer}"
                residual = heard[f"{name}_norm.residual"]
                close(residual, x + heard[f"{name}.output"])
                normed = heard[f"{name}_norm.output"]
                close(heard[f"{name}.input"], normed if config.norm_first else x)
                x = residual if config.norm_first else normed
            close(heard[f"{stack}.layers.{i}.hidden"], x)
        top = heard[f"{stack}.final_norm.output"] if config.norm_first else x
        close(top if stack == "decoder" else heard["memory"], top)
    close(heard["logits"], logits)
    top = top / math.sqrt(config.d_model) if config.scale_output else top
    close(logits, F.linear(top, model.output_projection.weight, model.output_projection.bias))


@max_examples(60)
@given(configs(decoder_ssru=True, positions="sinusoidal"), seeds)
@torch.no_grad()
def test_a_recurrence_can_be_redone_from_what_its_taps_say(config, seed):
    """Each cell is a mean of what is new and the cell before it, weighed by the forget gate."""
    model = build(config, seed)
    with record(model, "decoder.*.recurrence.*") as heard:
        model(sources(config, [6, 4], seed), targets(config, [5, 5], seed))
    for i, layer in enumerate(model.decoder.layers):
        x, new, forget, cells, y = (
            heard[f"decoder.layers.{i}.recurrence.{tap}"] for tap in ("input", "candidate", "forget", "cell", "output")
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
    """The seed's question. K and V of layer l are memory W_K^l and memory W_V^l: not the encoder's, not layer 0's."""
    model = build(config, seed)
    source, target = sources(config, [6, 6], seed), targets(config, [5, 5], seed)
    with record(model, "memory", "encoder.*", "decoder.*_attention.[kv]") as heard:
        state = model.start(source)
        for column in target.split(1, dim=1):
            model.step(column, state)

    assert len(heard.all("memory")) == 1
    for i, layer in enumerate(model.decoder.layers):
        name = f"decoder.layers.{i}.cross_attention"
        own = layer.cross_attention
        for letter, projection in (("k", own.k_proj), ("v", own.v_proj)):
            assert len(heard.all(f"{name}.{letter}")) == 1, "made once, however many tokens are decoded"
            close(heard[f"{name}.{letter}"], split_heads(projection(heard["memory"]), config.n_heads))
            if not config.decoder_ssru:
                assert len(heard.all(f"decoder.layers.{i}.self_attention.{letter}")) == target.shape[1]
        for other in (*model.encoder.layers, *model.decoder.layers[:i]):
            foreign = other.self_attention if other in model.encoder.layers else other.cross_attention
            assert own.k_proj.weight is not foreign.k_proj.weight
            assert own.v_proj.weight is not foreign.v_proj.weight
            if foreign is not own:
                assert (heard[f"{name}.k"] - foreign.keys_values(heard["memory"]).k).abs().max() > 1e-9
