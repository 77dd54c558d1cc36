"""Ours = theirs: random small Hugging Face models, their weights under our names, the same logits to 1e-5 in float32.

Marian is the promise; BART and T5 are here because they alone prove learned positions with an offset, the norm on
the embeddings, RMSNorm, gates and the relative bias against somebody else's code. (The importers proper live in
`interop`; these tables are the least that a comparison needs.)
"""

import os
import random
import re

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from glassformer.model import ModelConfig, Transformer
from glassformer.model.directory import with_weights
from glassformer.model.positions import distance_bucket, rotate, turns
from tests.models import sources, targets

MARIAN = [
    (r"model\.shared\.weight", "encoder.embedding.weight"),
    (r"model\.encoder\.embed_tokens\.weight", "encoder.embedding.weight"),
    (r"model\.decoder\.embed_tokens\.weight", "decoder.embedding.weight"),
    (r"lm_head\.weight", "output_projection.weight"),
    (r"model\.(encoder|decoder)\.embed_positions\.weight", r"\1.position.weight"),
    (r"model\.(encoder|decoder)\.layernorm_embedding\.(\w+)", r"\1.embedding_norm.\2"),
    (r"model\.(\w+)\.layers\.(\d+)\.self_attn\.(\w+)\.(\w+)", r"\1.layers.\2.self_attention.\3.\4"),
    (r"model\.(\w+)\.layers\.(\d+)\.encoder_attn\.(\w+)\.(\w+)", r"\1.layers.\2.cross_attention.\3.\4"),
    (r"model\.(\w+)\.layers\.(\d+)\.self_attn_layer_norm\.(\w+)", r"\1.layers.\2.self_attention_norm.\3"),
    (r"model\.(\w+)\.layers\.(\d+)\.encoder_attn_layer_norm\.(\w+)", r"\1.layers.\2.cross_attention_norm.\3"),
    (r"model\.(\w+)\.layers\.(\d+)\.final_layer_norm\.(\w+)", r"\1.layers.\2.feed_forward_norm.\3"),
    (r"model\.(\w+)\.layers\.(\d+)\.fc1\.(\w+)", r"\1.layers.\2.feed_forward.up_proj.\3"),
    (r"model\.(\w+)\.layers\.(\d+)\.fc2\.(\w+)", r"\1.layers.\2.feed_forward.down_proj.\3"),
]
T5 = [
    (r"shared\.weight", "encoder.embedding.weight"),
    (r"lm_head\.weight", "output_projection.weight"),
    (r"(\w+)\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.weight", r"\1.relative_bias.weight"),
    (r"(\w+)\.block\.(\d+)\.layer\.0\.SelfAttention\.([qkv])\.weight", r"\1.layers.\2.self_attention.\3_proj.weight"),
    (r"(\w+)\.block\.(\d+)\.layer\.0\.SelfAttention\.o\.weight", r"\1.layers.\2.self_attention.out_proj.weight"),
    (
        r"(\w+)\.block\.(\d+)\.layer\.1\.EncDecAttention\.([qkv])\.weight",
        r"\1.layers.\2.cross_attention.\3_proj.weight",
    ),
    (r"(\w+)\.block\.(\d+)\.layer\.1\.EncDecAttention\.o\.weight", r"\1.layers.\2.cross_attention.out_proj.weight"),
    (r"(\w+)\.block\.(\d+)\.layer\.0\.layer_norm\.weight", r"\1.layers.\2.self_attention_norm.weight"),
    (r"decoder\.block\.(\d+)\.layer\.1\.layer_norm\.weight", r"decoder.layers.\1.cross_attention_norm.weight"),
    (r"encoder\.block\.(\d+)\.layer\.1\.layer_norm\.weight", r"encoder.layers.\1.feed_forward_norm.weight"),
    (r"decoder\.block\.(\d+)\.layer\.2\.layer_norm\.weight", r"decoder.layers.\1.feed_forward_norm.weight"),
    (r"(\w+)\.block\.(\d+)\.layer\.\d\.DenseReluDense\.wi_0\.weight", r"\1.layers.\2.feed_forward.gate_proj.weight"),
    (r"(\w+)\.block\.(\d+)\.layer\.\d\.DenseReluDense\.wi_1\.weight", r"\1.layers.\2.feed_forward.up_proj.weight"),
    (r"(\w+)\.block\.(\d+)\.layer\.\d\.DenseReluDense\.wo\.weight", r"\1.layers.\2.feed_forward.down_proj.weight"),
    (r"(\w+)\.final_layer_norm\.weight", r"\1.final_norm.weight"),
]


def renamed(theirs, table):
    weights = {}
    for name, weight in theirs.named_parameters():
        matches = [re.sub(f"^{old}$", new, name) for old, new in table if re.fullmatch(old, name)]
        assert len(matches) == 1, name
        weights[matches[0]] = weight.detach().clone()
    return weights


def randomised(theirs, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if weight.requires_grad or "embed_positions" not in name:  # Marian's sine waves are not weights
                weight.copy_(torch.randn(weight.shape, generator=generator) * (0.3 if weight.dim() == 1 else 0.2))
    return theirs.eval()


def assert_same_logits(ours: Transformer, theirs, seed: int) -> None:
    config = ours.config
    source, target = sources(config, [11, 4, 7], seed), targets(config, [9, 9, 9], seed)
    with torch.no_grad():
        wanted = theirs(input_ids=source, attention_mask=ours.visible(source).long(), decoder_input_ids=target).logits
        found = ours(source, target)
    assert found.std() > 0.1, "logits that hardly differ would agree too easily"
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_marian(seed):
    pick = random.Random(seed)
    heads = pick.choice([1, 2, 4])
    shared = seed % 4 != 3
    options = {
        "vocab_size": 41,
        "d_model": heads * pick.choice([4, 6, 8]),
        "scale_embedding": pick.choice([True, False]),
        "encoder_layers": pick.choice([1, 2, 3]),
        "decoder_layers": pick.choice([1, 2, 3]),
        "activation_function": ["swish", "relu", "gelu"][seed % 3],
    }
    ffn = pick.choice([9, 16, 33])
    theirs = MarianMTModel(
        MarianConfig(
            **options,
            decoder_vocab_size=41 if shared else 29,
            share_encoder_decoder_embeddings=shared,
            tie_word_embeddings=True,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=ffn,
            decoder_ffn_dim=ffn,
            max_position_embeddings=32,
            pad_token_id=28,
            eos_token_id=0,
            decoder_start_token_id=28,
        )
    )
    theirs = randomised(theirs, seed)
    theirs.final_logits_bias.normal_(generator=torch.Generator().manual_seed(seed))
    config = ModelConfig(
        source_vocab_size=41,
        vocab_size=41 if shared else 29,
        d_model=options["d_model"],
        n_heads=heads,
        d_ff=ffn,
        encoder_layers=options["encoder_layers"],
        decoder_layers=options["decoder_layers"],
        activation=options["activation_function"].replace("swish", "silu"),
        positions="sinusoidal-halves",
        scale_embeddings=options["scale_embedding"],
        share_embeddings=shared,
        tie_output=theirs.lm_head.weight is theirs.model.decoder.embed_tokens.weight,
        output_bias=True,
        pad_id=28,
        bos_id=28,
        eos_id=0,
    )
    weights = {name: weight for name, weight in renamed(theirs, MARIAN).items() if "position" not in name}
    weights["output_projection.bias"] = theirs.final_logits_bias[0]
    assert_same_logits(with_weights(config, weights, "Marian"), theirs, seed)


@pytest.mark.parametrize("seed", range(3))
def test_bart(seed):
    theirs = randomised(
        BartForConditionalGeneration(
            BartConfig(
                vocab_size=37,
                d_model=24,
                encoder_layers=2,
                decoder_layers=1 + seed,
                encoder_attention_heads=3,
                decoder_attention_heads=3,
                encoder_ffn_dim=20,
                decoder_ffn_dim=20,
                max_position_embeddings=30,
                scale_embedding=seed == 1,
                forced_eos_token_id=2,
            )
        ),
        seed,
    )
    config = ModelConfig(
        vocab_size=37,
        d_model=24,
        n_heads=3,
        d_ff=20,
        encoder_layers=2,
        decoder_layers=1 + seed,
        positions="learned",
        max_positions=32,  # its table holds two rows more than it says
        position_offset=2,
        activation="gelu",
        embedding_norm=True,
        scale_embeddings=seed == 1,
        pad_id=1,
        bos_id=2,
        eos_id=2,
    )
    assert_same_logits(with_weights(config, renamed(theirs, MARIAN), "BART"), theirs, seed)


@pytest.mark.parametrize("seed", range(3))
def test_t5(seed):
    theirs = randomised(
        T5ForConditionalGeneration(
            T5Config(
                vocab_size=37,
                d_model=24,
                d_kv=5,
                num_heads=3,
                d_ff=20,
                num_layers=2,
                num_decoder_layers=1 + seed,
                relative_attention_num_buckets=8,
                relative_attention_max_distance=12,
                feed_forward_proj="gated-gelu",
                tie_word_embeddings=False,  # to transformers 5 this means "do not scale"; it ties all the same
                decoder_start_token_id=0,
            )
        ),
        seed,
    )
    config = ModelConfig(
        vocab_size=37,
        d_model=24,
        n_heads=3,
        d_head=5,
        d_ff=20,
        encoder_layers=2,
        decoder_layers=1 + seed,
        positions="relative",
        relative_buckets=8,
        relative_max_distance=12,
        norm="rms",
        norm_first=True,
        norm_eps=1e-6,
        activation="gelu-tanh",
        gated=True,
        tie_output=theirs.lm_head.weight is theirs.shared.weight,
        scale_embeddings=False,
        linear_bias=False,
        scale_scores=False,
        pad_id=0,
        bos_id=0,
        eos_id=1,
    )
    assert_same_logits(with_weights(config, renamed(theirs, T5), "T5"), theirs, seed)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 5), (12, 100), (4, 3)])
def test_relative_buckets_are_those_of_t5(both_ways, buckets, farthest):
    distance = torch.arange(-300, 301)[None, :]
    wanted = T5Attention._relative_position_bucket(distance, both_ways, buckets, farthest)
    assert torch.equal(distance_bucket(distance, buckets, farthest, both_ways), wanted)


@pytest.mark.parametrize("first", [0, 5])
def test_rotary_turns_are_those_of_llama(first):
    q, k = torch.randn(2, 2, 3, 7, 8, dtype=torch.float64)
    turn = turns(first, 7, 8, 10000.0, q)
    angles = torch.arange(first, first + 7, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
    both = torch.cat((angles, angles), dim=-1)[None]
    wanted_q, wanted_k = apply_rotary_pos_emb(q, k, both.cos(), both.sin())
    torch.testing.assert_close(rotate(q, turn), wanted_q, rtol=0, atol=1e-7)  # their exponents are float32
    torch.testing.assert_close(rotate(k, turn), wanted_k, rtol=0, atol=1e-7)
