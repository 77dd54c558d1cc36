"""A model as two ONNX files (the extra `onnx`): the same numbers, weights and tensors under our names.

`encoder.onnx` reads a source, and makes every decoder layer's own K and V of it: once a sentence. `decoder.onnx` takes
them, the newest target tokens, and what is remembered of the older ones, `past`, which may be nothing; it gives the
logits, and `grown`, the next step's `past`. Nothing is traced: `onnx_parts` says each module's `forward` in nodes.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from glassformer import __version__
from glassformer.errors import InputError
from glassformer.interop.onnx_export.onnx_graph import Graph
from glassformer.interop.onnx_export.onnx_layers import OnnxLayers, OnnxPositionTerms
from glassformer.model import ModelConfig, Transformer
from glassformer.model.layers import DecoderLayer

Axes = list[str | int]
Tensors = dict[str, Axes]
"""Tensors that come in or go out, by name."""

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
LONGEST = 4096
"""Rows of the tables of sine waves or rotations, unless told otherwise: a file holds one instead of computing it."""

ANY = None
HELD: dict[str, tuple[object, ...] | None] = {
    **dict.fromkeys(("vocab_size", "source_vocab_size", "d_model", "n_heads", "d_head", "d_ff"), ANY),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "decoder_ssru"), ANY),
    "positions": ("sinusoidal", "sinusoidal-halves", "sinusoidal-fairseq", "learned", "rotary", "relative"),
    **dict.fromkeys(("max_positions", "position_offset", "rotary_base"), ANY),
    **dict.fromkeys(("relative_buckets", "relative_max_distance"), ANY),
    "norm": ("layer", "rms"),
    **dict.fromkeys(("norm_first", "norm_eps", "embedding_norm"), ANY),
    "activation": ("relu", "gelu", "gelu-tanh", "silu"),
    **dict.fromkeys(("gated", "linear_bias", "output_bias", "share_embeddings", "tie_output"), ANY),
    **dict.fromkeys(("scale_embeddings", "scale_scores", "scale_output"), ANY),
    **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), ANY),  # of training alone
    **dict.fromkeys(("pad_id", "bos_id", "eos_id"), ANY),
}
"""The options that the files can hold, and with which values; one that is not named here, with its default alone."""


def unsupported(config: ModelConfig) -> list[str]:
    """The options of this model that the files cannot hold, each as `name = value`."""
    held = {name: HELD.get(name, (field.default,)) for name, field in type(config).model_fields.items()}
    return [
        f"{name} = {getattr(config, name)}"
        for name, values in held.items()
        if values is not ANY and getattr(config, name) not in values
    ]


@torch.no_grad()
def write_onnx(model: Transformer, directory: str | os.PathLike[str], longest: int = LONGEST) -> None:
    """Write the model into an existing directory, float32.

    `longest`: tokens that a sentence may have where the model knows no limit, but the file needs a table.
    """
    config = model.config
    if options := unsupported(config):
        raise InputError(f"The ONNX files cannot hold a model with {', '.join(options)}.")
    rows = config.max_tokens or longest
    told = {
        "glassformer": __version__,
        "config": config.as_json(),
        **{name: str(getattr(config, name)) for name in ("bos_id", "eos_id", "pad_id")},
        "longest": "" if config.positions == "relative" else str(rows),
    }
    _encoder(model, rows).save(Path(directory) / ENCODER, told)
    _decoder(model, rows).save(Path(directory) / DECODER, told)


def _encoder(model: Transformer, rows: int) -> Graph:
    graph, stack = OnnxLayers(model, rows), model.encoder
    ids = graph.input("source_ids", "INT64", "BS")
    visible = graph.input("source_visible", "BOOL", "BS")
    positions = graph.range("source_positions", graph.scalar(0), graph.length(ids, 1))

    x = graph.embed(stack, ids, visible, positions)
    seen = graph.node("source_seen", "Unsqueeze", visible, graph.whole(1, 2))
    mask, turn = graph.order(stack, positions, positions, seen)
    for layer in stack.layers:
        own = layer.self_attention
        y = graph.before(layer.self_attention_norm, x)
        k, v = graph.heads(own, "k", y, turn), graph.heads(own, "v", y)
        x = graph.after(layer.self_attention_norm, x, graph.attention(own, y, k, v, mask, turn))

        y = graph.feed_forward(layer.feed_forward, graph.before(layer.feed_forward_norm, x))
        x = graph.after(layer.feed_forward_norm, x, y)
    _source(graph, model, graph.finish(stack, x), visible)
    return graph


def _source(graph: OnnxLayers, model: Transformer, memory: str, visible: str) -> None:
    """Every decoder layer's own K and V of the memory, handed out."""
    column = graph.node("source_column", "Unsqueeze", visible, graph.whole(2))
    memory = graph.node("memory.visible", "Where", column, memory, graph.number(0))
    in_heads = graph.node("source_in_heads", "Unsqueeze", visible, graph.whole(1, 3))
    for i, layer in enumerate(model.decoder.layers):
        k, v = (graph.heads(layer.cross_attention, which, memory) for which in "kv")
        graph.node(f"source.{i}.k", "Identity", k)
        # A source of nothing but padding gives nothing, as in the model; the decoder's finite mask cannot say so.
        graph.node(f"source.{i}.v", "Where", in_heads, v, graph.number(0))
    _given(graph, _source_of(model.config))


def _decoder(model: Transformer, rows: int) -> Graph:
    graph, stack, config = OnnxLayers(model, rows), model.decoder, model.config
    ids = graph.input("target_ids", "INT64", "BT")
    visible = graph.input("source_visible", "BOOL", "BS")
    source, past = _taken(graph, _source_of(config)), _taken(graph, _target_of(config, "past", "P"))
    grown = _target_of(config, "grown", "P + T")
    first = graph.input("past.length", "INT64", []) if config.decoder_ssru else graph.length("past.0.k", 2)
    end = graph.node("grown.length", "Add", first, graph.length(ids, 1))
    positions = graph.range("target_positions", first, end)

    x = graph.embed(stack, ids, _present(graph, ids, positions, config.pad_id), positions)
    order = None if config.decoder_ssru else _no_future(graph, model, positions, end)
    seen = graph.node("source_seen", "Unsqueeze", visible, graph.whole(1, 2))
    mask = graph.mask("source_mask", seen, graph.number(0))
    for i, layer in enumerate(stack.layers):
        x = _recall(graph, layer, x, past[i], list(grown[i]), order)

        k, v = source[i]
        y = graph.before(layer.cross_attention_norm, x)
        x = graph.after(layer.cross_attention_norm, x, graph.attention(layer.cross_attention, y, k, v, mask))

        y = graph.feed_forward(layer.feed_forward, graph.before(layer.feed_forward_norm, x))
        x = graph.after(layer.feed_forward_norm, x, y)
    x = graph.finish(stack, x)
    if config.scale_output:
        x = graph.node("decoder.scaled", "Mul", x, graph.number(config.d_model**-0.5))
    graph.linear(model.output_projection, x, "logits")

    _given(graph, [{"logits": ["B", "T", config.vocab_size]}, *grown])
    if config.decoder_ssru:
        graph.output(end, "INT64", [])
    return graph


def _recall(
    graph: OnnxLayers,
    layer: DecoderLayer,
    x: str,
    past: Sequence[str],
    grown: Sequence[str],
    order: OnnxPositionTerms | None,
) -> str:
    """Self-attention or the recurrence, with its way around; what is remembered grows."""
    if order is None:
        y = graph.recurrence(layer.recurrence, graph.before(layer.recurrence_norm, x), *past, *grown)
        return graph.after(layer.recurrence_norm, x, y)
    own = layer.self_attention
    y = graph.before(layer.self_attention_norm, x)
    new = graph.heads(own, "k", y, order.turn), graph.heads(own, "v", y)
    k, v = (graph.node(name, "Concat", old, late, axis=2) for name, old, late in zip(grown, past, new, strict=True))
    return graph.after(layer.self_attention_norm, x, graph.attention(own, y, k, v, *order))


def _no_future(graph: OnnxLayers, model: Transformer, positions: str, end: str) -> OnnxPositionTerms:
    """Each query sees the keys up to its own position."""
    keys = graph.range("key_positions", graph.scalar(0), end)
    queries = graph.node("query_positions", "Unsqueeze", positions, graph.whole(1))
    return graph.order(model.decoder, positions, keys, graph.node("no_future", "LessOrEqual", keys, queries))


def _present(graph: Graph, ids: str, positions: str, pad: int) -> str:
    """Every token but padding; the first is the start, even where a model starts from padding, as Marian's do."""
    token = graph.node("target_token", "Not", graph.node("target_padding", "Equal", ids, graph.scalar(pad)))
    return graph.node("target_present", "Or", token, graph.node("target_start", "Equal", positions, graph.scalar(0)))


def _source_of(config: ModelConfig) -> list[Tensors]:
    """Each decoder layer's K and V of the source."""
    axes: Axes = ["B", config.n_heads, "S", config.d_head]
    return [{f"source.{i}.k": axes, f"source.{i}.v": axes} for i in range(config.decoder_layers)]


def _target_of(config: ModelConfig, name: str, length: str) -> list[Tensors]:
    """What each decoder layer remembers of the target: K and V of every position, or one cell."""
    heads: Axes = ["B", config.n_heads, length, config.d_head]
    own: Tensors = {"cell": ["B", config.d_model]} if config.decoder_ssru else {"k": heads, "v": heads}
    return [{f"{name}.{i}.{kind}": axes for kind, axes in own.items()} for i in range(config.decoder_layers)]


def _taken(graph: Graph, layers: list[Tensors]) -> list[list[str]]:
    return [[graph.input(name, "FLOAT", axes) for name, axes in own.items()] for own in layers]


def _given(graph: Graph, layers: list[Tensors]) -> None:
    for own in layers:
        for name, axes in own.items():
            graph.output(name, "FLOAT", axes)
