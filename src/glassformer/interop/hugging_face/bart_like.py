"""Common base of Hugging Face's Marian, Pegasus, BART, mBART and M2M100: names, settings, shared matrices."""

from typing import TYPE_CHECKING, Any

from glassformer.interop.fairseq_names import fairseq_names
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.name_table import NameTable
from glassformer.interop.untrusted_files import Weights, tensors_equal
from glassformer.model import ModelConfig

if TYPE_CHECKING:
    from glassformer.model import Transformer
    from glassformer.model.dims import Tensor

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu", "gelu_new": "gelu-tanh"}
THEIR_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "swish"}
ROWS = (("final_logits_bias", "output_projection.bias"), ("lm_head.weight", "output_projection.weight"))
NAMES = fairseq_names("model.", ("model.shared.weight", "shared.weight"), *ROWS)
"""Tensor names for import. `shared.weight` is not a name of ours: `pop_shared_embedding` assigns it."""
SHARED_NAMES = fairseq_names("model.", ("model.shared.weight", "encoder.embedding.weight"), *ROWS)
"""Tensor names for export of a model with shared embeddings."""


class BartLike:
    """Base class of the families that are named as in BART: their names, and whether they are pre-norm."""

    IGNORED_TENSORS: tuple[str, ...] = ()

    def __init__(self, title: str, kind: str, architecture: str, norm_first: bool) -> None:
        self.TITLE = title
        self.kind, self.architecture, self.norm_first = kind, architecture, norm_first

    def names(self, config: ModelConfig | None = None) -> NameTable:
        return SHARED_NAMES if config is not None and config.share_embeddings else NAMES

    def extra_tensors(self, model: "Transformer", max_tokens: int) -> "dict[str, Tensor]":
        """The tensor of the shared embedding, which Hugging Face's files have even if nothing is shared."""
        embedding = model.encoder.embedding.weight.detach()
        return {} if model.config.share_embeddings else {"model.shared.weight": embedding.clone()}

    def write_config(self, config: ModelConfig, max_tokens: int) -> dict[str, Any]:
        return {
            "model_type": self.kind,
            "architectures": [self.architecture],
            "max_position_embeddings": max_tokens,
            **write_sizes(config),
        }


def read_sizes(options: ImportedOptions) -> dict[str, Any]:
    """Our options from the settings that have the same names in all BART-like families."""
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
        "bos_id": options.token("decoder_start_token_id", options.token("pad_token_id")),
    }


def write_sizes(config: ModelConfig) -> dict[str, Any]:
    """The inverse of `read_sizes`: Hugging Face's settings from our options."""
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


def pop_shared_embedding(weights: Weights) -> bool:
    """Detect whether source and target share one embedding; of its up to three copies in `weights`, one is kept."""
    names = ("encoder.embedding.weight", "decoder.embedding.weight")
    if (shared := weights.pop("shared.weight", None)) is not None:
        for name in names:
            weights.setdefault(name, shared)
    shares = tensors_equal(weights, *names)
    if shares:
        del weights["decoder.embedding.weight"]
    return shares


def pop_zero_bias(weights: Weights) -> bool:
    """Detect whether the output has a non-zero bias; in `weights` it is flattened, or removed if it is zero."""
    bias = weights.pop("output_projection.bias", None)
    if bias is None or not bias.any():
        return False
    weights["output_projection.bias"] = bias.flatten()
    return True
