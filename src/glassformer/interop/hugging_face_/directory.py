"""A model as Hugging Face's MarianMTModel (the package `transformers`): the same numbers under its names."""

from importlib import import_module
from typing import Any

import torch

from glassformer.errors import InputError
from glassformer.model import ModelConfig, Transformer

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
NAMES = (
    ("self_attention.", "self_attn."),
    ("cross_attention.", "encoder_attn."),
    ("self_attention_norm.", "self_attn_layer_norm."),
    ("cross_attention_norm.", "encoder_attn_layer_norm."),
    ("feed_forward_norm.", "final_layer_norm."),
    ("feed_forward.up_proj.", "fc1."),
    ("feed_forward.down_proj.", "fc2."),
)


def not_marian(config: ModelConfig) -> list[str]:
    """The options of this model that a MarianMTModel cannot have, each as `name = value`."""
    refused = {
        "positions": config.positions != "sinusoidal-halves" or config.position_offset > 0,
        "norm": config.norm != "layer",
        "norm_first": config.norm_first,
        "norm_eps": config.norm_eps != 1e-5,
        "activation": config.activation not in ACTIVATIONS,
        "gated": config.gated,
        "embedding_norm": config.embedding_norm,
        "linear_bias": not config.linear_bias,
        "scale_scores": not config.scale_scores,
        "share_embeddings": not config.share_embeddings,
        "tie_output": not config.tie_output,
        "d_head": config.d_head * config.n_heads != config.d_model,
    }
    return [f"{name} = {getattr(config, name)}" for name, wrong in refused.items() if wrong]


def marian(config: ModelConfig, longest: int) -> Any:
    """A MarianMTModel of this size with weights of its own, for sentences of at most `longest` tokens."""
    try:
        transformers = import_module("transformers")
    except ImportError:
        raise InputError("Hugging Face's `transformers` is not installed.") from None
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function=ACTIVATIONS[config.activation],
            scale_embedding=config.scale_embeddings,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            max_position_embeddings=longest,
            pad_token_id=config.pad_id,
            eos_token_id=config.eos_id,
            decoder_start_token_id=config.bos_id,
            forced_eos_token_id=None,
        )
    )


@torch.no_grad()
def as_marian(model: Transformer, longest: int = 1024) -> Any:
    """The same model in their code, for sentences of at most `longest` tokens."""
    config = model.config
    if options := not_marian(config):
        raise InputError(f"A MarianMTModel cannot have {', '.join(options)}.")
    theirs = marian(config, longest)
    ours = dict(model.named_parameters())
    if "output_projection.bias" in ours:
        theirs.final_logits_bias.copy_(ours["output_projection.bias"])
    theirs.model.shared.weight.copy_(ours["encoder.embedding.weight"])
    theirs.tie_weights()
    their = dict(theirs.named_parameters())
    for name, weight in ours.items():
        if ".layers." in name:
            stack, _, number, rest = name.split(".", 3)
            old, new = max(((old, new) for old, new in NAMES if rest.startswith(old)), key=lambda pair: len(pair[0]))
            their[f"model.{stack}.layers.{number}.{new}{rest.removeprefix(old)}"].copy_(weight)
    return theirs.eval()
