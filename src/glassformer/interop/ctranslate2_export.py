"""Export to CTranslate2 (the extra `ct2`): the same weights under CTranslate2's names.

CTranslate2 identifies tokens by text: unless a vocabulary is given, each token is named by its id, so that it
translates ids to ids.
"""

import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.extras import explained
from glassformer.interop.capabilities import check_supported
from glassformer.model import ModelConfig, Transformer
from glassformer.model.attention import Attention
from glassformer.model.layers import DecoderLayer, EncoderLayer, FeedForward, Norm
from glassformer.model.position_kinds import position_kind

POSITION_ROWS = 4096
"""Rows of the exported position table: CTranslate2 reads sinusoids instead of computing them."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}


class ExportVocabulary(NamedTuple):
    """Vocabularies to export: the tokens of source and target as texts, unique within a side."""

    source: list[str]
    target: list[str]
    unknown: str

    @classmethod
    def numbers(cls, config: ModelConfig) -> "ExportVocabulary":
        """A vocabulary that names each token by its id. CTranslate2 requires an unknown token, though unused."""
        source, target = ([str(i) for i in range(size)] for size in (config.source_vocab_size, config.vocab_size))
        return cls(source, target, unknown=str(config.pad_id))


def write_ctranslate2(
    model: Transformer,
    directory: str | os.PathLike[str],
    vocabulary: ExportVocabulary | None = None,
    quantization: str | None = None,
) -> None:
    """Write the model into an existing directory. Without `quantization`, CTranslate2 may still quantise on loading."""
    check_supported("CTranslate2", model.config)
    spec = _spec(model, vocabulary or ExportVocabulary.numbers(model.config))
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(Path(directory)))


def open_ctranslate2(directory: str | os.PathLike[str], **options: Any) -> Any:
    """Open a directory written by `write_ctranslate2` as a CTranslate2 translator."""
    return _library("ctranslate2").Translator(str(directory), **options)


def _library(name: str) -> Any:
    with explained():
        return import_module(name)


def _spec(model: Transformer, vocabulary: ExportVocabulary) -> Any:
    specs, config = _library("ctranslate2.specs"), model.config
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.n_heads,
        pre_norm=config.norm_first,
        activation=getattr(specs.Activation, ACTIVATIONS[config.activation]),
        layernorm_embedding=config.embedding_norm,
        relative_attention_bias=position_kind(config).biases,
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
            rows = config.max_tokens or POSITION_ROWS
            side.position_encodings.encodings = _array(stack.position(0, rows, like=stack.embedding.weight))
        if stack.embedding_norm is not None:
            _norm(side.layernorm_embedding, stack.embedding_norm)
        if stack.final_norm is not None:
            _norm(side.layer_norm, stack.final_norm)
        layers = cast("list[EncoderLayer | DecoderLayer]", stack.layers)
        for layer_spec, layer in zip(side.layer, layers, strict=True):
            _layer(layer_spec, layer)
            bias = layer.relative_bias or stack.relative_bias
            if bias is not None:
                attention = layer_spec.self_attention
                attention.relative_attention_bias = _array(bias.weight)
                attention.relative_attention_max_distance = np.int32(config.relative_max_distance)
    _linear(spec.decoder.projection, model.output_projection)
    if config.scale_output:
        spec.decoder.projection.weight *= config.d_model**-0.5

    spec.register_source_vocabulary(vocabulary.source)
    spec.register_target_vocabulary(vocabulary.target)
    spec.config.unk_token = vocabulary.unknown
    for name, token in (("bos", config.bos_id), ("eos", config.eos_id), ("decoder_start", config.bos_id)):
        setattr(spec.config, f"{name}_token", vocabulary.target[token])
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    _attention(spec.self_attention, layer.self_attention, is_self=True)
    _norm(spec.self_attention.layer_norm, layer.self_attention_norm)
    if isinstance(layer, DecoderLayer):
        _attention(spec.attention, layer.cross_attention, is_self=False)
        _norm(spec.attention.layer_norm, layer.cross_attention_norm)
    _feed_forward(spec.ffn, layer.feed_forward)
    _norm(spec.ffn.layer_norm, layer.feed_forward_norm)


def _attention(spec: Any, attention: Attention, is_self: bool) -> None:
    """Fill in an attention: Q, K and V in one matrix for self-attention; K and V in one for cross-attention."""
    q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
    for i, parts in enumerate([(q, k, v)] if is_self else [(q,), (k, v)]):
        _linear(spec.linear[i], *parts)
    _linear(spec.linear[-1], attention.out_proj)
    if attention.scale == 1.0:
        spec.queries_scale = np.float32(1.0)


def _feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    if feed_forward.gate_proj is None:
        _linear(spec.linear_0, feed_forward.up_proj)
    else:
        _linear(spec.linear_0, feed_forward.gate_proj)  # the activated matrix comes first
        _linear(spec.linear_0_noact, feed_forward.up_proj)
    _linear(spec.linear_1, feed_forward.down_proj)


def _linear(spec: Any, *parts: nn.Linear) -> None:
    """Fill in a matrix, of one linear layer or of several stacked ones."""
    spec.weight = _array(torch.cat(tuple(part.weight for part in parts)))
    if parts[0].bias is not None:
        spec.bias = _array(torch.cat(tuple(part.bias for part in parts)))


def _norm(spec: Any, norm: Norm) -> None:
    spec.gamma = _array(norm.weight)
    if norm.bias is not None:
        spec.beta = _array(norm.bias)


def _array(weight: Tensor) -> Any:
    return weight.detach().float().numpy(force=True).copy()  # CTranslate2 quantises in place
