"""Parity with torch.nn.Transformer: with its weights copied, the logits are equal to 1e-10 in float64."""

import pytest
import torch
from torch import nn

from glassformer.model import ModelConfig, Transformer
from tests.models import build, sources, targets


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    """torch stores W_Q, W_K and W_V stacked in one matrix."""
    for name, weight, bias in zip("qkv", theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True):
        projection = getattr(ours, f"{name}_proj")
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    ours.out_proj.load_state_dict(theirs.out_proj.state_dict())


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    norms = [ours.self_attention_norm, ours.feed_forward_norm]
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        norms.insert(1, ours.cross_attention_norm)
    for i, norm in enumerate(norms, start=1):
        norm.load_state_dict(getattr(theirs, f"norm{i}").state_dict())
    ours.feed_forward.up_proj.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down_proj.load_state_dict(theirs.linear2.state_dict())


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-norm", "post-norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore:.*nested.tensor")  # torch's warning about its own fast path
@torch.no_grad()
def test_logits_equal_those_of_torch_nn_transformer(norm_first, activation, seed):
    generator = torch.Generator().manual_seed(seed)

    def pick(*choices):
        return choices[torch.randint(len(choices), (1,), generator=generator).item()]

    heads = pick(1, 2, 4)
    config = ModelConfig(
        vocab_size=30,
        d_model=heads * pick(2, 3, 8),
        n_heads=heads,
        d_ff=pick(7, 32),
        encoder_layers=pick(1, 2, 3),
        decoder_layers=pick(1, 2, 4),
        norm_first=norm_first,
        activation=activation,
    )
    theirs = nn.Transformer(
        config.d_model,
        heads,
        config.encoder_layers,
        config.decoder_layers,
        config.d_ff,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    ).eval()
    if not norm_first:  # post-norm layers already end in a norm; torch adds a final norm all the same
        theirs.encoder.norm = theirs.decoder.norm = None
    for weight in theirs.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64) * 0.5)

    ours = build(config, seed)
    for stack in ("encoder", "decoder"):
        for layer, other in zip(getattr(ours, stack).layers, getattr(theirs, stack).layers, strict=True):
            copy_layer(layer, other)
        if norm_first:
            getattr(ours, stack).final_norm.load_state_dict(getattr(theirs, stack).norm.state_dict())

    source, target = sources(config, [7, 3, 5], seed), targets(config, [6, 6, 6], seed)
    padding = ~ours.visible(source)
    hidden = theirs(
        ours.encoder.embed(source, ~padding),
        ours.decoder.embed(target, torch.ones_like(target, dtype=torch.bool)),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_is_causal=True,
    )
    torch.testing.assert_close(ours(source, target), ours.project(hidden), rtol=0, atol=1e-10)


def test_the_comparison_would_notice_a_swapped_matrix():
    """Sensitivity of the test above: with W_K and W_V exchanged in one layer, the logits differ."""
    config = ModelConfig(vocab_size=30, d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1)
    model, other = build(config, 1), Transformer(config).double().eval()
    other.load_state_dict(model.state_dict())
    cross = other.decoder.layers[0].cross_attention
    cross.k_proj, cross.v_proj = cross.v_proj, cross.k_proj
    source, target = sources(config, [7, 3], 0), targets(config, [6, 6], 0)
    assert (model(source, target) - other(source, target)).abs().max() > 1e-3
