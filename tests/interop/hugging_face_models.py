"""Random small models made by `transformers`, one function per family."""

import os
import random

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import (
    BartConfig,
    M2M100Config,
    MarianConfig,
    MBartConfig,
    PegasusConfig,
    T5Config,
    UMT5Config,
)


def marian(seed):
    pick = random.Random(seed)
    shared = seed % 4 != 3
    more = {"decoder_vocab_size": 41 if shared else 29, "share_encoder_decoder_embeddings": shared}
    ids = {"pad_token_id": 28, "eos_token_id": 0, "decoder_start_token_id": 28}
    return made(MarianConfig(**sizes(pick), **more, **ids, tie_word_embeddings=shared or seed % 8 != 7), seed)


def pegasus(seed):
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    return made(PegasusConfig(**sizes(random.Random(seed)), **ids, tie_word_embeddings=seed % 3 != 2), seed)


def bart(seed):
    ids = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "bos_token_id": 0}
    return made(BartConfig(**sizes(random.Random(seed)), **ids, tie_word_embeddings=seed % 3 != 2), seed)


def mbart(seed):
    ids = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2 + seed % 3, "bos_token_id": 0}
    return made(MBartConfig(**sizes(random.Random(seed)), **ids, tie_word_embeddings=seed % 3 != 2), seed)


def m2m100(seed):
    ids = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "bos_token_id": 0}
    return made(M2M100Config(**sizes(random.Random(seed)), **ids, tie_word_embeddings=seed % 3 != 2), seed)


def t5(seed):
    return t5_like(T5Config, seed, tie_word_embeddings=[None, False][seed // 2 % 2])


def umt5(seed):
    """Their class has scaled outputs and shared embeddings, always: only larger ones make logits that differ."""
    return t5_like(UMT5Config, seed, embedding_size=0.3)


def byt5(seed):
    """T5 with bytes as tokens, and far fewer layers in the decoder than in the encoder."""
    depths = {"num_layers": 3, "num_decoder_layers": 1}  # more layers make larger rounding errors
    options = {"vocab_size": 384, "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu", **depths}
    return t5_like(T5Config, seed + 10, **options)  # seeds 1 and 9 have larger logits, and so rounding errors


def t5_like(kind, seed, embedding_size=0.15, **options):
    pick = random.Random(seed)
    drawn = {
        "vocab_size": 37,
        "d_model": pick.choice([5, 8, 12, 17]),
        "d_kv": pick.choice([3, 4, 7]),
        "d_ff": pick.choice([9, 16, 33]),
        "num_heads": pick.choice([1, 2, 3]),
        "num_layers": pick.choice([1, 2, 3]),
        "num_decoder_layers": pick.choice([1, 2, 3]),
        "relative_attention_num_buckets": pick.choice([8, 12, 32]),
        "relative_attention_max_distance": pick.choice([17, 20, 128]),
        "feed_forward_proj": ["relu", "gated-gelu", "gated-silu", "gelu"][seed % 4],
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }
    return made(kind(**drawn | options), seed, embedding_size)


def sizes(pick):
    heads, ffn = pick.choice([1, 2, 3, 4]), pick.choice([9, 16, 33])
    return {
        "vocab_size": 41,
        "d_model": heads * pick.choice([4, 6, 10]),
        "encoder_layers": pick.choice([1, 2, 3]),
        "decoder_layers": pick.choice([1, 2, 3]),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": ffn,
        "decoder_ffn_dim": ffn,
        "activation_function": pick.choice(["swish", "relu", "gelu"]),
        "scale_embedding": pick.choice([True, False]),
        "max_position_embeddings": 64,
        "forced_eos_token_id": None,
    }


def made(config, seed, embedding_size=0.15):
    """A model with random weights: no bias is 0 and no norm is 1, so that an omission changes the result."""
    model = transformers.AutoModelForSeq2SeqLM.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name or weight.requires_grad:  # Marian's sinusoids are not weights
                noise = torch.randn(weight.shape, generator=generator)
                size = embedding_size if "embed" in name or "shared" in name else 0.45  # else a token predicts itself
                weight.copy_(0.8 + 0.3 * noise if name.endswith("norm.weight") else size * noise)
        if hasattr(model, "final_logits_bias") and seed % 2:
            model.final_logits_bias.normal_(generator=generator)
    return ending(model.eval(), generator)


@torch.no_grad()
def ending(model, generator):
    """The same model with the end token's output vector along the mean hidden vector, so that sentences end."""
    config, recorded = model.config, []
    hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: recorded.append(inputs[0]))
    for _ in range(2):  # the start token may be the end token, and so change the hidden vectors
        ids = [torch.randint(3, 28, (40, length), generator=generator) for length in (9, 7)]
        ids[1][:, 0] = config.decoder_start_token_id
        logits = model(input_ids=ids[0], decoder_input_ids=ids[1]).logits.flatten(0, 1)
        hidden = recorded[-1].flatten(0, 1)
        logits[:, config.eos_token_id] = -torch.inf
        mean = hidden.mean(0)
        factor = (logits.amax(-1) / (hidden @ mean).clamp(min=1e-3)).quantile(0.7)
        model.get_output_embeddings().weight[config.eos_token_id] = factor * mean
    hook.remove()
    return model


FAMILIES = {"marian": marian, "pegasus": pegasus, "bart": bart, "mbart": mbart, "m2m_100": m2m100, "t5": t5}
FAMILIES |= {"umt5": umt5, "byt5": byt5}
