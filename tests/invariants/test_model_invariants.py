"""Invariants of the model, tested on random small models in float64."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.func import functional_call

from glassformer.inspection import record
from glassformer.model import ModelConfig, Transformer, preset
from tests.examples import max_examples
from tests.models import KINDS_OF_POSITIONS, build, configs, lengths, seeds, sources, targets
from tests.processes import run_plainly

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, **TOLERANCE)


@max_examples(200)
@given(configs(), lengths, st.lists(st.integers(1, 4), min_size=1, max_size=12), seeds)
@torch.no_grad()
def test_one_token_at_a_time_equals_all_at_once(config, source_lengths, pieces, seed):
    """transformers#36536, #13849; x-transformers#219: a cache that changes the answer. Pieces of any size agree."""
    model = build(config, seed)
    source = sources(config, source_lengths, seed)
    target = targets(config, [sum(pieces)] * len(source), seed)
    state = model.start(source)
    stepwise = torch.cat([model.step(piece, state) for piece in target.split(pieces, dim=1)], dim=1)
    close(stepwise, model(source, target))
    assert state.length == target.shape[1]


@max_examples(100)
@given(configs(), seeds, st.data())
@torch.no_grad()
def test_reordered_rows_continue_as_if_they_had_always_been_in_that_order(config, seed, data):
    """transformers#46612, fairseq2#307: a cache that is not reordered, or not when row counts coincide."""
    model = build(config, seed)
    source = sources(config, [4, 7, 5], seed)
    target = targets(config, [6, 6, 6], seed)
    rows = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=5)))
    state = model.start(source)
    model.step(target[:, :3], state)
    before = model.start(source)
    model.step(target[:, :3], before)

    reordered = state.reorder(rows)
    close(model.step(target[rows, 3:], reordered), model(source[rows], target[rows])[:, 3:])
    close(model.step(target[:, 3:], state), model.step(target[:, 3:], before))  # the old state is unchanged


@max_examples(150)
@given(configs(), lengths, seeds)
@torch.no_grad()
def test_fused_attention_equals_explicit_attention(config, source_lengths, seed):
    model = build(config, seed)
    source, target = sources(config, source_lengths, seed), targets(config, [5] * len(source_lengths), seed)
    fused = model(source, target)
    with record(model):
        recorded = model(source, target)
    close(recorded, fused)
    assert torch.equal(model(source, target), fused), "recording must have no lasting effect"


@max_examples(150)
@given(configs(), st.lists(st.integers(1, 9), min_size=2, max_size=4), st.integers(0, 20), seeds)
@torch.no_grad()
def test_a_sentence_alone_equals_the_same_sentence_among_others(config, source_lengths, extra, seed):
    """fairseq#3078, OpenNMT-py#318, #1909: a translation that depends on its neighbours."""
    model = build(config, seed)
    source = sources(config, source_lengths, seed, total=max(source_lengths) + extra)
    target_lengths = [2 + length % 5 for length in source_lengths]
    target = targets(config, target_lengths, seed)
    together = model(source, target)
    for i, (source_length, target_length) in enumerate(zip(source_lengths, target_lengths, strict=True)):
        alone = model(source[i : i + 1, :source_length], target[i : i + 1, :target_length])
        close(together[i : i + 1, :target_length], alone)


@max_examples(60)
@given(configs(), st.permutations(range(4)), seeds)
@torch.no_grad()
def test_a_permuted_batch_gives_permuted_results(config, order, seed):
    model = build(config, seed)
    source, target = sources(config, [3, 8, 1, 5], seed), targets(config, [6, 2, 4, 6], seed)
    close(model(source[order], target[order]), model(source, target)[order])


@pytest.mark.parametrize("positions", KINDS_OF_POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
@torch.no_grad()
def test_the_order_of_tokens_matters(positions, norm_first):
    """Exchanging two source tokens does more than exchange two rows of the output, as it would without positions."""
    model = build(preset("tiny", vocab_size=20, d_model=16, positions=positions, norm_first=norm_first))
    source = torch.tensor([[4, 5, 6, 7, 8]])
    order = torch.tensor([0, 3, 2, 1, 4])
    visible = model.visible(source)
    memory, permuted = model.encode(source, visible), model.encode(source[:, order], visible)[:, order]
    assert (memory - permuted).abs().max() > 1e-6  # a thousand million times the rounding error


@max_examples(40)
@given(configs(positions="rotary"), st.integers(1, 100), seeds)
@torch.no_grad()
def test_with_rotary_positions_only_distances_count(config, shift, seed):
    """Attention between the same vectors is unchanged when all positions are shifted."""
    model = build(config, seed)
    attention = model.encoder.layers[0].self_attention
    x = torch.randn(2, 5, config.d_model, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    outputs = [
        attention(x, *attention.keys_values(x, rotation), None, None, rotation)
        for rotation in (model.encoder.position_terms(first, 5, like=x)[0].rotation for first in (0, shift))
    ]
    close(*outputs)


@max_examples(100)
@given(configs(), st.integers(1, 6), seeds)
def test_no_position_sees_the_future(config, cut, seed):
    """By value and by gradient: values can coincide by chance, a gradient of exactly 0 cannot."""
    model = build(config, seed)
    source, target = sources(config, [6, 3], seed), targets(config, [7, 7], seed)
    other = target.clone()
    other[:, cut:] = targets(config, [7, 7], seed + 7)[:, cut:]
    with torch.no_grad():
        close(model(source, other)[:, :cut], model(source, target)[:, :cut])

    inputs = []
    model.decoder.input.listeners.append(lambda x: inputs.append(x.detach().requires_grad_()) or inputs[-1])
    model(source, target)[:, :cut].sum().backward()
    assert inputs[0].grad is not None
    assert torch.all(inputs[0].grad[:, cut:] == 0)


@max_examples(150)
@given(configs(bos_id=1, pad_id=0, eos_id=2), st.sampled_from([float("nan"), 1e30, -1e30, float("inf")]), seeds)
@torch.no_grad()
def test_nothing_in_padding_changes_anything(config, poison, seed):
    """pytorch#101967: a masked key still poisons its row, because 0 × NaN is NaN."""
    model = build(config, seed)
    source, target = sources(config, [6, 2, 4], seed), targets(config, [3, 5, 1], seed)
    tokens = torch.arange(target.shape[1]) < torch.tensor([[3], [5], [1]])
    real = torch.arange(config.vocab_size) != config.pad_id  # with tied output, padding's own logit may be poisoned
    clean = model(source, target)[tokens][:, real]
    visible = model.visible(source)
    memory = model.encode(source, visible)
    hidden = model.decode(target, memory, visible)[tokens]

    poisoned_memory = memory.masked_fill(~visible[:, :, None], poison)
    close(model.decode(target, poisoned_memory, visible)[tokens], hidden)

    for table in (model.encoder.embedding, model.decoder.embedding):
        table.weight[config.pad_id] = poison
    close(model(source, target)[tokens][:, real], clean)
    with record(model):
        close(model(source, target)[tokens][:, real], clean)
    state = model.start(source)
    stepwise = torch.cat([model.step(column, state) for column in target.split(1, dim=1)], dim=1)
    close(stepwise[tokens][:, real], clean)


@max_examples(60)
@given(configs(), seeds)
def test_a_sentence_of_nothing_but_padding_stays_finite(config, seed):
    """pytorch#103749, transformers#38690: a fully masked row becomes NaN, and with it the training."""
    model = build(config, seed).train()
    source, target = sources(config, [4, 4], seed), targets(config, [3, 3], seed)
    source[1] = config.pad_id
    for listen in (False, True):
        if listen:
            with record(model):
                logits = model(source, target)
        else:
            logits = model(source, target)
        assert logits.isfinite().all()
        model.zero_grad()
        logits.square().sum().backward()
        for name, weight in model.named_parameters():
            assert weight.grad is None or weight.grad.isfinite().all(), name


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_a_mask_that_is_not_boolean_is_an_error(dtype):
    """torch accepts a mask of 0.0 and 1.0 with another meaning: it is added to the scores.

    As a user would call it, in an interpreter without shape checks.
    """
    run_plainly(f"""
        import torch
        from contextlib import nullcontext
        from glassformer import GlassformerError, Transformer, preset, record

        model = Transformer(preset("tiny", vocab_size=20)).eval()
        source, target = torch.tensor([[4, 5, 6], [7, 8, 0]]), torch.tensor([[1, 4], [1, 5]])
        mask = model.visible(source).to(torch.{dtype})
        attention = model.encoder.layers[0].self_attention
        x = torch.zeros(2, 3, 128)
        calls = [
            lambda: model(source, target, mask),
            lambda: model.encode(source, mask),
            lambda: model.decode(target, x, mask),
            lambda: model.start(source, mask),
            lambda: attention(x, *attention.keys_values(x), mask[:, None, None, :]),
        ]
        for call in calls:
            for listen in (nullcontext(), record(model)):
                with listen:
                    try:
                        call()
                    except GlassformerError as error:
                        assert "must be boolean" in str(error), error
                    else:
                        raise SystemExit("accepted")
    """)


@max_examples(25)
@given(configs(activation="gelu"), seeds)
def test_gradients_agree_with_finite_differences(config, seed):
    """Every parameter of the whole model at once, in float64, along random directions."""
    model = build(config, seed)
    _check_gradients(model, fast_mode=True)


@pytest.mark.parametrize(
    ("positions", "activation"),
    [("sinusoidal", "relu"), ("learned", "gelu"), ("rotary", "silu"), ("relative", "gelu-tanh")],
)
def test_gradients_agree_with_finite_differences_number_by_number(positions, activation):
    config = ModelConfig(
        vocab_size=5,
        d_model=4,
        n_heads=2,
        d_ff=3,
        encoder_layers=1,
        decoder_layers=1,
        positions=positions,
        norm="rms" if positions == "rotary" else "layer",
        norm_first=positions != "sinusoidal",
        gated=activation == "silu",
        activation=activation,
        **{"learned": {"max_positions": 6}, "relative": {"relative_buckets": 4}}.get(positions, {}),
    )
    _check_gradients(build(config, seed=3), fast_mode=False)


def _check_gradients(model: Transformer, fast_mode: bool) -> None:
    source, target = sources(model.config, [3, 2], 1), targets(model.config, [3, 2], 1)
    names, weights = zip(*model.named_parameters(), strict=True)
    sizes = [weight.numel() for weight in weights]

    def loss(everything):
        values = [v.view_as(w) for v, w in zip(everything.split(sizes), weights, strict=True)]
        logits = functional_call(model, dict(zip(names, values, strict=True)), (source, target))
        return logits.log_softmax(-1).square().mean()

    everything = torch.cat([weight.detach().flatten() for weight in weights]).requires_grad_()
    assert torch.autograd.gradcheck(loss, everything, fast_mode=fast_mode, eps=1e-6, atol=1e-6, rtol=1e-4)


@max_examples(40)
@given(configs(), seeds)
def test_dropout_is_off_when_not_training_and_repeats_with_its_seed(config, seed):
    model = build(config, seed)
    source, target = sources(config, [5, 2], seed), targets(config, [4, 4], seed)
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    runs = []
    for _ in range(2):
        torch.manual_seed(seed)
        runs.append(model(source, target))
    assert torch.equal(*runs)


@max_examples(20)
@given(configs(positions="rotary"), seeds)
@example(config=preset("tiny", vocab_size=20), seed=0)
def test_a_model_that_translated_first_can_still_be_trained(config, seed):
    """A position table made under inference_mode must not be an inference tensor when training uses it."""
    from glassformer.model import positions

    positions._cached.cache_clear()
    model = build(config, seed)
    source, target = sources(config, [5], seed), targets(config, [4], seed)
    with torch.inference_mode():
        model(source, target)
    model(source, target).sum().backward()
