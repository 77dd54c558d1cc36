"""Names and shapes of a model's parameters, computed from its configuration alone: what a file must hold.

The names are those of the PyTorch modules, and a file format (docs/names.md). Without PyTorch.
"""

import math
from collections.abc import Iterator

from glassformer.model.config import ModelConfig
from glassformer.model.position_kinds import position_kind

Shape = tuple[int, ...]


def parameter_shapes(config: ModelConfig, every_name: bool = False) -> dict[str, Shape]:
    """The shape of every parameter by name; shared ones once, under their first name, or under every name."""
    shapes = dict([*_stack(config, "encoder"), *_stack(config, "decoder")])
    shapes |= dict(_linear("output_projection", config.d_model, config.vocab_size, config.output_bias))
    return {name: shape for name, shape in shapes.items() if every_name or stored_name(config, name) == name}


def stored_name(config: ModelConfig, name: str) -> str:
    """The name under which a parameter is stored: the first of those that share it (section 3.4)."""
    if config.tie_output and name == "output_projection.weight":
        name = "decoder.embedding.weight"
    if config.share_embeddings and name == "decoder.embedding.weight":
        name = "encoder.embedding.weight"
    return name


def n_parameters(config: ModelConfig) -> int:
    """Number of trainable parameters of a model of this config; shared ones count once."""
    return sum(map(math.prod, parameter_shapes(config).values()))


def _stack(config: ModelConfig, stack: str) -> Iterator[tuple[str, Shape]]:
    kind, width = position_kind(config), config.d_model
    vocab_size = config.source_vocab_size if stack == "encoder" else config.vocab_size
    bias = ("relative_bias.weight", (config.relative_buckets, config.n_heads))
    yield f"{stack}.embedding.weight", (vocab_size, width)
    if kind.learned:
        yield f"{stack}.position.weight", (config.max_positions, width)
    if config.embedding_norm:
        yield from _norm(config, f"{stack}.embedding_norm")
    if kind.bias == "stack":
        yield f"{stack}.{bias[0]}", bias[1]
    for i in range(config.encoder_layers if stack == "encoder" else config.decoder_layers):
        layer = f"{stack}.layers.{i}"
        if stack == "decoder" and config.decoder_ssru:
            yield from _linear(f"{layer}.recurrence.candidate_proj", width, width, False)
            yield from _linear(f"{layer}.recurrence.forget_proj", width, width, True)
            yield from _norm(config, f"{layer}.recurrence_norm")
        else:
            yield from _attention(config, f"{layer}.self_attention")
        if stack == "decoder":
            yield from _attention(config, f"{layer}.cross_attention")
        for name in ("up_proj", *(["gate_proj"] if config.gated else [])):
            yield from _linear(f"{layer}.feed_forward.{name}", width, config.d_ff, config.linear_bias)
        yield from _linear(f"{layer}.feed_forward.down_proj", config.d_ff, width, config.linear_bias)
        yield from _norm(config, f"{layer}.feed_forward_norm")
        if kind.bias == "layer":
            yield f"{layer}.{bias[0]}", bias[1]
    if config.norm_first:
        yield from _norm(config, f"{stack}.final_norm")


def _attention(config: ModelConfig, name: str) -> Iterator[tuple[str, Shape]]:
    """The parameters of an attention and of the norm beside it."""
    heads = config.n_heads * config.d_head
    for letter in "qkv":
        yield from _linear(f"{name}.{letter}_proj", config.d_model, heads, config.linear_bias)
    yield from _linear(f"{name}.out_proj", heads, config.d_model, config.linear_bias)
    yield from _norm(config, f"{name}_norm")


def _linear(name: str, inputs: int, outputs: int, bias: bool) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(config: ModelConfig, name: str) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (config.d_model,)
    if config.norm == "layer":
        yield f"{name}.bias", (config.d_model,)
