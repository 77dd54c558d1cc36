"""What every target can hold: the allowed values of each option of `ModelConfig`.

Targets are the families of Hugging Face models, CTranslate2, ONNX and the C engine. Of an option that a target does not
list, it holds the default only: a new option is refused by every target until it is listed here.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from glassformer.errors import InputError
from glassformer.model import ModelConfig


class Condition(NamedTuple):
    """An allowed value that depends on other options."""

    meaning: str
    holds: Callable[[ModelConfig], bool]


Allowed = tuple[object, ...] | Condition | None
"""Allowed values of an option: these, those that meet a condition, or any."""
ANY = None

WHOLE_HEADS = Condition("d_model / n_heads", lambda config: config.d_head * config.n_heads == config.d_model)
ALL_OR_NONE = Condition("true if tie_output is", lambda config: config.share_embeddings or not config.tie_output)
AFTER_PADDING = Condition("pad_id + 1", lambda config: config.position_offset == config.pad_id + 1)
RMS_IF_FIRST = Condition(
    "layer, or rms with norm_first and without embedding_norm",
    lambda config: config.norm == "layer" or (config.norm == "rms" and config.norm_first and not config.embedding_norm),
)
T5_ACTIVATION = Condition(
    "relu, gelu-tanh and silu, or gelu if not gated",
    lambda config: config.activation in ("relu", "gelu-tanh", "silu", *(() if config.gated else ("gelu",))),
)

ANY_VALUE = (
    *("vocab_size", "source_vocab_size", "d_model", "n_heads", "d_head", "d_ff", "encoder_layers", "decoder_layers"),
    *("dropout", "attention_dropout", "activation_dropout", "pad_id", "bos_id", "eos_id"),
    # These belong to a kind of positions; the row `positions` decides.
    *("max_positions", "position_offset", "rotary_base", "relative_buckets", "relative_max_distance"),
    *("norm_first", "norm_eps", "gated", "share_embeddings", "tie_output", "scale_embeddings", "embedding_norm"),
    *("output_bias", "linear_bias", "scale_scores", "scale_output", "decoder_ssru"),
)
SINUSOIDAL = ("sinusoidal", "sinusoidal-halves", "sinusoidal-fairseq")
EVERYTHING: dict[str, Allowed] = dict.fromkeys(ANY_VALUE, ANY) | {
    "positions": (*SINUSOIDAL, "learned", "rotary", "relative", "relative-per-layer"),
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "gelu-tanh", "silu"),
}
BART_LIKE = EVERYTHING | {
    "d_head": WHOLE_HEADS,
    "norm": ("layer",),
    "norm_eps": (1e-5,),
    "share_embeddings": ALL_OR_NONE,
    **dict.fromkeys(("linear_bias", "scale_scores"), (True,)),
    **dict.fromkeys(("gated", "scale_output", "decoder_ssru"), (False,)),
}
PEGASUS = BART_LIKE | {
    "positions": ("sinusoidal", "sinusoidal-halves", "learned"),
    "position_offset": (0,),
    "norm_first": (True,),
    "embedding_norm": (False,),
}
MBART = dict(BART_LIKE, positions=("learned",), position_offset=(2,), norm_first=(True,), embedding_norm=(True,))
T5 = EVERYTHING | {
    "positions": ("relative",),
    "norm": ("rms",),
    "activation": T5_ACTIVATION,
    **dict.fromkeys(("norm_first", "share_embeddings"), (True,)),
    **dict.fromkeys(("scale_embeddings", "embedding_norm", "output_bias"), (False,)),
    **dict.fromkeys(("linear_bias", "scale_scores", "decoder_ssru"), (False,)),
}

CAPABILITIES: Mapping[str, Mapping[str, Allowed]] = {
    # Hugging Face families, by their model_type
    "marian": PEGASUS | {"norm_first": (False,), "share_embeddings": ANY},
    "pegasus": PEGASUS,
    "bart": MBART | {"norm_first": (False,)},
    "mbart": MBART,
    "m2m_100": dict(PEGASUS, positions=("sinusoidal-fairseq",), position_offset=AFTER_PADDING, output_bias=(False,)),
    "t5": T5,
    "mt5": T5,
    "umt5": T5 | {"positions": ("relative-per-layer",)},
    # Other programs and formats
    "CTranslate2": dict(
        EVERYTHING,
        d_head=WHOLE_HEADS,
        positions=(*SINUSOIDAL, "learned", "relative", "relative-per-layer"),  # its encoder cannot rotate
        norm=RMS_IF_FIRST,
        decoder_ssru=(False,),
    ),
    "the ONNX export": EVERYTHING,
    "the C engine": EVERYTHING,
}


def unsupported(target: str, config: ModelConfig) -> list[str]:
    """The options that a target cannot hold, each as `name = value (what it can hold)`."""
    listed = CAPABILITIES[target]
    options = {name: listed.get(name, (field.default,)) for name, field in type(config).model_fields.items()}
    return [
        f"{name} = {getattr(config, name)} (only {_meaning(allowed)})"
        for name, allowed in options.items()
        if not _is_allowed(name, allowed, config)
    ]


def check_supported(target: str, config: ModelConfig) -> None:
    """Refuse a model that a target cannot hold, with one sentence."""
    if options := unsupported(target, config):
        raise InputError(f"{target[0].upper()}{target[1:]} does not support models with {', '.join(options)}.")


def _is_allowed(name: str, allowed: Allowed, config: ModelConfig) -> bool:
    if isinstance(allowed, Condition):
        return allowed.holds(config)
    return allowed is ANY or getattr(config, name) in allowed


def _meaning(allowed: Any) -> str:
    if isinstance(allowed, Condition):
        return allowed.meaning
    *first, last = map(str, allowed)
    return f"{', '.join(first)} or {last}" if first else last
