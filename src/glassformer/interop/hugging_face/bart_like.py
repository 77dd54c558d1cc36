"""What Hugging Face's Marian, Pegasus, BART, mBART and M2M100 have in common: names, settings, shared matrices."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.interop.fairseq_names import fairseq_names
from glassformer.interop.names import Names
from glassformer.interop.options import Options
from glassformer.model import ModelConfig, Transformer

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu", "gelu_new": "gelu-tanh"}
THEIR_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "swish"}
ROWS = (("final_logits_bias", "output_projection.bias"), ("lm_head.weight", "output_projection.weight"))
TABLE = fairseq_names("model.", ("model.shared.weight", "shared.weight"), *ROWS)
"""Of Marian, BART and mBART. `shared.weight` is no name of ours: `take_embeddings` says whose it is."""
SHARED = fairseq_names("model.", ("model.shared.weight", "encoder.embedding.weight"), *ROWS)
"""The same, for writing a model with one embedding."""


def names(config: ModelConfig | None) -> Names:
    """The table of tensors; for writing a model of this config, if one is given."""
    return SHARED if config is not None and config.share_embeddings else TABLE


def read_sizes(options: Options) -> dict[str, Any]:
    """What Marian, BART, mBART and M2M100 call alike."""
    start = options.get("decoder_start_token_id", options.get("pad_token_id"))
    return {
        "d_model": options["d_model"],
        "n_heads": options.same("encoder_attention_heads", "decoder_attention_heads"),
        "d_ff": options.same("encoder_ffn_dim", "decoder_ffn_dim"),
        "encoder_layers": options["encoder_layers"],
        "decoder_layers": options["decoder_layers"],
        "activation": options.choice("activation_function", ACTIVATIONS),
        "scale_embeddings": options.get("scale_embedding", False),
        "tie_output": options.get("tie_word_embeddings", True),
        "dropout": options.get("dropout", 0.1),
        "attention_dropout": options.get("attention_dropout", 0.0),
        "activation_dropout": options.get("activation_dropout", 0.0),
        "pad_id": options.token("pad_token_id"),
        "eos_id": options.token("eos_token_id"),
        "bos_id": start[0] if isinstance(start, list) and start else start,
    }


def write_sizes(config: ModelConfig) -> dict[str, Any]:
    """The same, the other way round."""
    return {
        "vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "activation_function": THEIR_ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embeddings,
        "tie_word_embeddings": config.tie_output,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.eos_id,
        "bos_token_id": config.bos_id,
        "decoder_start_token_id": config.bos_id,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
    }


def not_alike(config: ModelConfig) -> list[str]:
    """What none of these families can have."""
    wrong = {
        "norm": config.norm != "layer",
        "norm_eps": config.norm_eps != 1e-5,
        "gated": config.gated,
        "linear_bias": not config.linear_bias,
        "scale_scores": not config.scale_scores,
        "scale_output": config.scale_output,
        "decoder_ssru": config.decoder_ssru,
        "d_head": config.d_head * config.n_heads != config.d_model,
    }
    return said(config, wrong)


def half_shared(config: ModelConfig) -> bool:
    """All but Marian share all three matrices, or none."""
    return not config.share_embeddings and config.tie_output


def unused_embedding(model: Transformer) -> dict[str, Tensor]:
    """Where nothing is shared they still have a place for it."""
    config = model.config
    return {} if config.share_embeddings else {"model.shared.weight": model.encoder.embedding.weight.detach().clone()}


def said(config: ModelConfig, wrong: Mapping[str, bool]) -> list[str]:
    return [f"{name} = {getattr(config, name)}" for name, is_wrong in wrong.items() if is_wrong]


def take_embeddings(weights: dict[str, Tensor]) -> bool:
    """Whether source and target share one embedding: theirs may stand under three names."""
    shared = weights.pop("shared.weight", None)
    names = ("encoder.embedding.weight", "decoder.embedding.weight")
    if shared is not None:
        for name in names:
            weights.setdefault(name, shared)
    source, target = (weights.get(name) for name in names)
    if source is None or target is None or source.shape != target.shape or not torch.equal(source, target):
        return False
    del weights["decoder.embedding.weight"]
    return True


def take_bias(weights: dict[str, Tensor]) -> bool:
    """Whether there is a bias of the output that does something; it loses its first axis, or goes."""
    bias = weights.get("output_projection.bias")
    if bias is None:
        return False
    weights["output_projection.bias"] = bias.flatten()
    if not bias.any():
        del weights["output_projection.bias"]
    return bool(bias.any())
