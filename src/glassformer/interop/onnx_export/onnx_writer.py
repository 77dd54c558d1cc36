"""ONNX export (the extra `onnx`): two files that compute the same, with weights and tensors under our names.

`encoder.onnx` encodes a source and computes every decoder layer's cross-attention K and V, once per sentence.
`decoder.onnx` takes these, the newest target tokens and the cache of earlier ones, `past`, which may be empty; it
returns the logits and `present`, the next step's `past`. Nothing is traced: `onnx_layers` writes each module's
`forward` as nodes.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from glassformer import __version__
from glassformer.interop.capabilities import check_supported
from glassformer.interop.onnx_export.onnx_graph import Graph
from glassformer.interop.onnx_export.onnx_layers import OnnxLayers, OnnxPositionTerms
from glassformer.model import ModelConfig, Transformer
from glassformer.model.layers import DecoderLayer
from glassformer.model.position_kinds import position_kind

Axes = list[str | int]
Tensors = dict[str, Axes]
"""Axes of graph inputs or outputs, by name."""

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
DEFAULT_MAX_TOKENS = 4096
"""Default number of rows of the tables of sinusoids or rotations, which a file stores instead of computing them."""


@torch.no_grad()
def write_onnx(model: Transformer, directory: str | os.PathLike[str], max_tokens: int = DEFAULT_MAX_TOKENS) -> None:
    """Write the model as two ONNX files into an existing directory, float32.

    `max_tokens`: the longest sentence, if the model has no limit but the file needs a position table.
    """
    config = model.config
    check_supported("the ONNX export", config)
    kind = position_kind(config)
    rows = config.max_tokens or max_tokens
    metadata = {
        "glassformer": __version__,
        "config": config.as_json(),
        **{name: str(getattr(config, name)) for name in ("bos_id", "eos_id", "pad_id")},
        "max_tokens": str(rows) if kind.adds or kind.rotates else "",  # the rows of their tables
    }
    _encoder(model, rows).save(Path(directory) / ENCODER, metadata)
    _decoder(model, rows).save(Path(directory) / DECODER, metadata)


def _encoder(model: Transformer, rows: int) -> Graph:
    graph, stack = OnnxLayers(model, rows), model.encoder
    ids = graph.input("source_ids", "INT64", "BS")
    visible = graph.input("source_visible", "BOOL", "BS")
    positions = graph.range("source_positions", graph.int_scalar(0), graph.length(ids, 1))

    x = graph.embed(stack, ids, visible, positions)
    seen = graph.node("source_seen", "Unsqueeze", visible, graph.int_list(1, 2))
    terms = graph.position_terms(stack, positions, positions, seen)
    for layer, (mask, rotation) in zip(stack.layers, terms, strict=True):
        attention = layer.self_attention
        y = graph.before(layer.self_attention_norm, x)
        k, v = graph.heads(attention, "k", y, rotation), graph.heads(attention, "v", y)
        x = graph.after(layer.self_attention_norm, x, graph.attention(attention, y, k, v, mask, rotation))

        y = graph.feed_forward(layer.feed_forward, graph.before(layer.feed_forward_norm, x))
        x = graph.after(layer.feed_forward_norm, x, y)
    _cross_attention_outputs(graph, model, graph.finish(stack, x), visible)
    return graph


def _cross_attention_outputs(graph: OnnxLayers, model: Transformer, memory: str, visible: str) -> None:
    """Add every decoder layer's cross-attention K and V as graph outputs."""
    column = graph.node("source_column", "Unsqueeze", visible, graph.int_list(2))
    memory = graph.node("memory.visible", "Where", column, memory, graph.float_scalar(0))
    in_heads = graph.node("source_in_heads", "Unsqueeze", visible, graph.int_list(1, 3))
    for i, layer in enumerate(model.decoder.layers):
        k, v = (graph.heads(layer.cross_attention, which, memory) for which in "kv")
        graph.node(f"source.{i}.k", "Identity", k)
        # V of an all-padding source is 0, as in the model; the decoder's finite mask cannot express that.
        graph.node(f"source.{i}.v", "Where", in_heads, v, graph.float_scalar(0))
    _outputs(graph, _source_tensors(model.config))


def _decoder(model: Transformer, rows: int) -> Graph:
    graph, stack, config = OnnxLayers(model, rows), model.decoder, model.config
    ids = graph.input("target_ids", "INT64", "BT")
    visible = graph.input("source_visible", "BOOL", "BS")
    source, past = _inputs(graph, _source_tensors(config)), _inputs(graph, _cache_tensors(config, "past", "P"))
    present = _cache_tensors(config, "present", "P + T")
    first = graph.input("past.length", "INT64", []) if config.decoder_ssru else graph.length("past.0.k", 2)
    end = graph.node("present.length", "Add", first, graph.length(ids, 1))
    positions = graph.range("target_positions", first, end)

    x = graph.embed(stack, ids, _token_mask(graph, ids, positions, config.pad_id), positions)
    terms = _causal_terms(graph, model, positions, end)
    seen = graph.node("source_seen", "Unsqueeze", visible, graph.int_list(1, 2))
    mask = graph.mask("source_mask", seen, graph.float_scalar(0))
    for i, layer in enumerate(stack.layers):
        x = _self_attention_or_recurrence(graph, layer, x, past[i], list(present[i]), terms[i])

        k, v = source[i]
        y = graph.before(layer.cross_attention_norm, x)
        x = graph.after(layer.cross_attention_norm, x, graph.attention(layer.cross_attention, y, k, v, mask))

        y = graph.feed_forward(layer.feed_forward, graph.before(layer.feed_forward_norm, x))
        x = graph.after(layer.feed_forward_norm, x, y)
    x = graph.finish(stack, x)
    if config.scale_output:
        x = graph.node("decoder.scaled", "Mul", x, graph.float_scalar(config.d_model**-0.5))
    graph.linear(model.output_projection, x, "logits")

    _outputs(graph, [{"logits": ["B", "T", config.vocab_size]}, *present])
    if config.decoder_ssru:
        graph.output(end, "INT64", [])
    return graph


def _self_attention_or_recurrence(
    graph: OnnxLayers, layer: DecoderLayer, x: str, past: list[str], present: list[str], terms: OnnxPositionTerms | None
) -> str:
    """Add a decoder layer's self-attention or recurrence, with its residual connection; extends the cache."""
    if terms is None:
        y = graph.recurrence(layer.recurrence, graph.before(layer.recurrence_norm, x), *past, *present)
        return graph.after(layer.recurrence_norm, x, y)
    attention = layer.self_attention
    y = graph.before(layer.self_attention_norm, x)
    new = graph.heads(attention, "k", y, terms.rotation), graph.heads(attention, "v", y)
    k, v = (graph.node(name, "Concat", old, late, axis=2) for name, old, late in zip(present, past, new, strict=True))
    return graph.after(layer.self_attention_norm, x, graph.attention(attention, y, k, v, *terms))


def _causal_terms(
    graph: OnnxLayers, model: Transformer, positions: str, end: str
) -> Sequence[OnnxPositionTerms | None]:
    """Position terms of each layer, with a causal mask: each query attends to the keys up to its own position."""
    if model.config.decoder_ssru:
        return [None] * len(model.decoder.layers)
    keys = graph.range("key_positions", graph.int_scalar(0), end)
    queries = graph.node("query_positions", "Unsqueeze", positions, graph.int_list(1))
    return graph.position_terms(model.decoder, positions, keys, graph.node("no_future", "LessOrEqual", keys, queries))


def _token_mask(graph: Graph, ids: str, positions: str, pad: int) -> str:
    """Mask of tokens that are not padding; the first is the start token, even if that is padding, as in Marian."""
    token = graph.node("target_token", "Not", graph.node("target_padding", "Equal", ids, graph.int_scalar(pad)))
    start = graph.node("target_start", "Equal", positions, graph.int_scalar(0))
    return graph.node("target_token_mask", "Or", token, start)


def _source_tensors(config: ModelConfig) -> list[Tensors]:
    """Names and axes of each decoder layer's cross-attention K and V."""
    axes: Axes = ["B", config.n_heads, "S", config.d_head]
    return [{f"source.{i}.k": axes, f"source.{i}.v": axes} for i in range(config.decoder_layers)]


def _cache_tensors(config: ModelConfig, name: str, length: str) -> list[Tensors]:
    """Names and axes of each decoder layer's cache: K and V of every target position, or one recurrent cell."""
    heads: Axes = ["B", config.n_heads, length, config.d_head]
    tensors: Tensors = {"cell": ["B", config.d_model]} if config.decoder_ssru else {"k": heads, "v": heads}
    return [{f"{name}.{i}.{kind}": axes for kind, axes in tensors.items()} for i in range(config.decoder_layers)]


def _inputs(graph: Graph, layers: list[Tensors]) -> list[list[str]]:
    return [[graph.input(name, "FLOAT", axes) for name, axes in tensors.items()] for tensors in layers]


def _outputs(graph: Graph, layers: list[Tensors]) -> None:
    for tensors in layers:
        for name, axes in tensors.items():
            graph.output(name, "FLOAT", axes)
