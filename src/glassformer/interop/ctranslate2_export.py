"""A model as CTranslate2's files (the extra `ct2`): the same numbers under its names.

CTranslate2 knows tokens by text: unless words are given for them, each is called by its number, so that ids go in and
come out.
"""

import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import InputError
from glassformer.interop.foreign_options import refusals
from glassformer.model import ModelConfig, Transformer
from glassformer.model.attention import Attention
from glassformer.model.layers import DecoderLayer, EncoderLayer, FeedForward, Norm

POSITIONS = 4096
"""Rows of the table of sine waves that is written: CTranslate2 reads one instead of computing it."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}


def unsupported(config: ModelConfig) -> list[str]:
    """The options of this model that CTranslate2 cannot hold, each as `name = value`."""
    wrong = {
        "decoder_ssru": config.decoder_ssru,
        "positions": config.positions == "rotary",  # its encoder adds a table, always
        "d_head": config.d_head * config.n_heads != config.d_model,
        "norm": config.norm == "rms" and (config.embedding_norm or not config.norm_first),
    }
    return refusals(config, wrong)


class ExportVocabulary(NamedTuple):
    """What the tokens of both sides are called; no two of a side alike."""

    source: list[str]
    target: list[str]
    unknown: str

    @classmethod
    def numbers(cls, config: ModelConfig) -> "ExportVocabulary":
        """Each token is called by its number. None needs to be the unknown one, but one must."""
        source, target = ([str(i) for i in range(size)] for size in (config.source_vocab_size, config.vocab_size))
        return cls(source, target, unknown=str(config.pad_id))


def write_ctranslate2(
    model: Transformer,
    directory: str | os.PathLike[str],
    words: ExportVocabulary | None = None,
    quantization: str | None = None,
) -> None:
    """Write the model into an existing directory. Without `quantization` its loader may still do that."""
    if options := unsupported(model.config):
        raise InputError(f"CTranslate2 cannot hold a model with {', '.join(options)}.")
    spec = _spec(model, words or ExportVocabulary.numbers(model.config))
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(Path(directory)))


def open_ctranslate2(directory: str | os.PathLike[str], **options: Any) -> Any:
    """CTranslate2's translator of such a directory."""
    return _library("ctranslate2").Translator(str(directory), **options)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError("CTranslate2 is not installed: `pip install 'glassformer[ct2]'`.") from None


def _spec(model: Transformer, words: ExportVocabulary) -> Any:
    specs, config = _library("ctranslate2.specs"), model.config
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.n_heads,
        pre_norm=config.norm_first,
        activation=getattr(specs.Activation, ACTIVATIONS[config.activation]),
        layernorm_embedding=config.embedding_norm,
        relative_attention_bias=config.positions == "relative",
        ffn_glu=config.gated,
        rms_norm=config.norm == "rms",
    )
    for side, stack, embedding in (
        (spec.encoder, model.encoder, spec.encoder.embeddings[0]),
        (spec.decoder, model.decoder, spec.decoder.embeddings),
    ):
        embedding.weight = _array(stack.embedding.weight)
        side.scale_embeddings = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        if stack.position is not None:
            rows = config.max_tokens or POSITIONS
            side.position_encodings.encodings = _array(stack.position(0, rows, like=stack.embedding.weight))
        if stack.embedding_norm is not None:
            _norm(side.layernorm_embedding, stack.embedding_norm)
        if stack.final_norm is not None:
            _norm(side.layer_norm, stack.final_norm)
        for number, layer in enumerate(stack.layers):
            _layer(side.layer[number], cast("EncoderLayer | DecoderLayer", layer))
            if stack.relative_bias is not None:
                own = side.layer[number].self_attention
                own.relative_attention_bias = _array(stack.relative_bias.weight)
                own.relative_attention_max_distance = np.int32(config.relative_max_distance)
    _linear(spec.decoder.projection, model.output_projection)
    if config.scale_output:
        spec.decoder.projection.weight *= config.d_model**-0.5

    spec.register_source_vocabulary(words.source)
    spec.register_target_vocabulary(words.target)
    spec.config.unk_token = words.unknown
    for name, token in (("bos", config.bos_id), ("eos", config.eos_id), ("decoder_start", config.bos_id)):
        setattr(spec.config, f"{name}_token", words.target[token])
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    _attention(spec.self_attention, layer.self_attention, own=True)
    _norm(spec.self_attention.layer_norm, layer.self_attention_norm)
    if isinstance(layer, DecoderLayer):
        _attention(spec.attention, layer.cross_attention, own=False)
        _norm(spec.attention.layer_norm, layer.cross_attention_norm)
    _feed_forward(spec.ffn, layer.feed_forward)
    _norm(spec.ffn.layer_norm, layer.feed_forward_norm)


def _attention(spec: Any, attention: Attention, own: bool) -> None:
    """Q, K and V in one matrix where all come from one input; K and V in one where they come from the memory."""
    q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
    for place, parts in enumerate([(q, k, v)] if own else [(q,), (k, v)]):
        _stacked(spec.linear[place], parts)
    _linear(spec.linear[-1], attention.out_proj)
    if attention.scale == 1.0:
        spec.queries_scale = np.float32(1.0)


def _feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    if feed_forward.gate_proj is None:
        _linear(spec.linear_0, feed_forward.up_proj)
    else:
        _linear(spec.linear_0, feed_forward.gate_proj)  # what is activated comes first
        _linear(spec.linear_0_noact, feed_forward.up_proj)
    _linear(spec.linear_1, feed_forward.down_proj)


def _stacked(spec: Any, parts: tuple[nn.Linear, ...]) -> None:
    spec.weight = _array(torch.cat(tuple(part.weight for part in parts)))
    if parts[0].bias is not None:
        spec.bias = _array(torch.cat(tuple(part.bias for part in parts)))


def _linear(spec: Any, linear: nn.Linear) -> None:
    _stacked(spec, (linear,))


def _norm(spec: Any, norm: Norm) -> None:
    spec.gamma = _array(norm.weight)
    if norm.bias is not None:
        spec.beta = _array(norm.bias)


def _array(weight: Tensor) -> Any:
    return weight.detach().float().numpy(force=True).copy()  # it quantises in place
