"""Hugging Face's T5 (1.0 and 1.1) and mT5: relative positions, no biases, RMS norms, unscaled scores."""

from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.data import AnyTokenizer, ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import pieces_by_id
from glassformer.data.subword_segmentation import SentencePieceSegmenter
from glassformer.interop.bounded_files import read_spm
from glassformer.interop.hugging_face.marian_mt import marian_tokenizer, write_marian_tokenizer
from glassformer.interop.imported_options import ImportedOptions, unsupported_options
from glassformer.interop.name_table import NameTable
from glassformer.interop.tokenizer_files import segmentation_models
from glassformer.interop.untrusted_files import inside, tensors_equal, write_json
from glassformer.model import ModelConfig, Transformer

FEED_FORWARDS = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gelu_new": ("gelu-tanh", False),
    "silu": ("silu", False),
    "gated-relu": ("relu", True),
    "gated-gelu": ("gelu-tanh", True),  # their gated "gelu" is the tanh approximation
    "gated-gelu_new": ("gelu-tanh", True),
    "gated-silu": ("silu", True),
}
SENTINELS = [f"<extra_id_{number}>" for number in reversed(range(100))]
BLOCK, LAYER = "{stack}.block.{n}.layer", "{stack}.layers.{n}"


def _attention(theirs: str, ours: str) -> list[tuple[str, str]]:
    rows = [(f"{theirs}.{letter}.weight", f"{ours}.{letter}_proj.weight") for letter in "qkv"]
    return [*rows, (f"{theirs}.o.weight", f"{ours}.out_proj.weight")]


def _feed_forward(stack: str, index: int) -> list[tuple[str, str]]:
    """Name pairs (T5's, ours) of feed-forward weights; T5's are layer 1 in the encoder and layer 2 in the decoder."""
    theirs, ours = f"{stack}.block.{{n}}.layer.{index}", f"{stack}.layers.{{n}}"
    return [
        (f"{theirs}.DenseReluDense.wi_0.weight", f"{ours}.feed_forward.gate_proj.weight"),
        (f"{theirs}.DenseReluDense.wi_1.weight", f"{ours}.feed_forward.up_proj.weight"),
        (f"{theirs}.DenseReluDense.wi.weight", f"{ours}.feed_forward.up_proj.weight"),
        (f"{theirs}.DenseReluDense.wo.weight", f"{ours}.feed_forward.down_proj.weight"),
        (f"{theirs}.layer_norm.weight", f"{ours}.feed_forward_norm.weight"),
    ]


ROWS = (
    ("shared.weight", "encoder.embedding.weight"),
    ("{stack}.embed_tokens.weight", "{stack}.embedding.weight"),
    ("lm_head.weight", "output_projection.weight"),
    ("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "{stack}.relative_bias.weight"),
    *_attention(f"{BLOCK}.0.SelfAttention", f"{LAYER}.self_attention"),
    *_attention(f"{BLOCK}.1.EncDecAttention", f"{LAYER}.cross_attention"),
    (f"{BLOCK}.0.layer_norm.weight", f"{LAYER}.self_attention_norm.weight"),
    ("decoder.block.{n}.layer.1.layer_norm.weight", "decoder.layers.{n}.cross_attention_norm.weight"),
    *_feed_forward("encoder", 1),
    *_feed_forward("decoder", 2),
    ("{stack}.final_layer_norm.weight", "{stack}.final_norm.weight"),
)
GATED_NAMES = NameTable(*ROWS)
UNGATED_NAMES = NameTable(
    *(row for row in ROWS if ".wi_1." not in row[0]), *(row for row in ROWS if ".wi_1." in row[0])
)


class T5Family:
    TITLE = "Hugging Face T5"
    IGNORED_TENSORS = (
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    )  # unused, from the original checkpoints

    def names(self, config: ModelConfig | None = None) -> NameTable:
        """The table of T5's weight names and ours; for import either serves, for export only gated models have wi_1."""
        return UNGATED_NAMES if config is not None and not config.gated else GATED_NAMES

    def read_config(self, options: ImportedOptions, weights: dict[str, Tensor]) -> ModelConfig:
        activation, gated = options.choice("feed_forward_proj", FEED_FORWARDS, "relu")
        layers = options["num_layers"]
        output, embedding = "output_projection.weight", "encoder.embedding.weight"
        settings = {
            "vocab_size": options["vocab_size"],
            "d_model": options["d_model"],
            "n_heads": options["num_heads"],
            "d_head": options["d_kv"],
            "d_ff": options["d_ff"],
            "encoder_layers": layers,
            "decoder_layers": options.get("num_decoder_layers", layers),
            "positions": "relative",
            "relative_buckets": options["relative_attention_num_buckets"],
            "relative_max_distance": options.get("relative_attention_max_distance", 128),
            "norm": "rms",
            "norm_first": True,
            "norm_eps": options.get("layer_norm_epsilon", 1e-6),
            "activation": activation,
            "gated": gated,
            "tie_output": output not in weights or tensors_equal(weights, output, embedding),
            "scale_embeddings": False,
            "linear_bias": False,
            "scale_scores": False,
            "scale_output": options.get("tie_word_embeddings", True) and options.get("scale_decoder_outputs", True),
            "dropout": options.get("dropout_rate", 0.1),
            "attention_dropout": options.get("dropout_rate", 0.1),
            "activation_dropout": options.get("dropout_rate", 0.1),
            "pad_id": options.token("pad_token_id"),
            "eos_id": options.token("eos_token_id"),
            "bos_id": options.token("decoder_start_token_id", options.token("pad_token_id")),
        }
        return ModelConfig(**settings)

    def unsupported(self, config: ModelConfig) -> list[str]:
        is_unsupported = {
            "positions": config.positions != "relative",
            "norm": config.norm != "rms",
            "norm_first": not config.norm_first,
            "embedding_norm": config.embedding_norm,
            "output_bias": config.output_bias,
            "linear_bias": config.linear_bias,
            "scale_embeddings": config.scale_embeddings,
            "scale_scores": config.scale_scores,
            "share_embeddings": not config.share_embeddings,
            "decoder_ssru": config.decoder_ssru,
        }
        if (config.activation, config.gated) not in FEED_FORWARDS.values():
            is_unsupported |= {"activation": True, "gated": True}
        return unsupported_options(config, is_unsupported)

    def extra_tensors(self, model: Transformer, max_tokens: int) -> dict[str, Tensor]:
        return {}

    def write_config(self, config: ModelConfig, max_tokens: int) -> dict[str, Any]:
        kinds = {ours: theirs for theirs, ours in reversed(FEED_FORWARDS.items())}
        return {
            "model_type": "t5",
            "architectures": ["T5ForConditionalGeneration"],
            "vocab_size": config.vocab_size,
            "d_model": config.d_model,
            "d_kv": config.d_head,
            "d_ff": config.d_ff,
            "num_heads": config.n_heads,
            "num_layers": config.encoder_layers,
            "num_decoder_layers": config.decoder_layers,
            "relative_attention_num_buckets": config.relative_buckets,
            "relative_attention_max_distance": config.relative_max_distance,
            "layer_norm_epsilon": config.norm_eps,
            "feed_forward_proj": kinds[config.activation, config.gated],
            "tie_word_embeddings": config.scale_output,  # its meaning in T5: 1.1 is neither tied nor scaled
            "dropout_rate": config.dropout,
            "pad_token_id": config.pad_id,
            "eos_token_id": config.eos_id,
            "decoder_start_token_id": config.bos_id,
            "is_encoder_decoder": True,
        }

    def read_tokenizer(
        self, directory: Path, options: ImportedOptions, config: ModelConfig
    ) -> ImportedTokenizer | None:
        """Read T5's tokenizer: spiece.model, then the sentinels in reverse order, unless it has them, as mT5's does."""
        if not (directory / "spiece.model").exists():
            return marian_tokenizer(directory, config)
        model = read_spm(inside(directory, "spiece.model"), config.vocab_size)
        pieces = SentencePieceSegmenter(model).pieces()
        sentinels = [] if any("<extra_id_" in piece for piece in pieces) else SENTINELS
        pieces = [*pieces, *sentinels][: config.vocab_size]
        ids = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
        vocabulary = pieces_by_id(ids, config.vocab_size)
        settings = ImportedTokenizerSettings(
            cut="sentencepiece",
            joint=True,
            after_source=["</s>"],
            after_target=["</s>"],
            tags=[piece for piece in vocabulary if piece.startswith("<extra_id_")],
            hidden=["<pad>"],
        )
        return ImportedTokenizer.joint(settings, vocabulary, model)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        """Write a T5 tokenizer unchanged, others as Marian's: T5Tokenizer supports only T5's ids and unigram scores."""
        if isinstance(tokenizer, ImportedTokenizer) and _has_sentinels(tokenizer):
            (directory / "spiece.model").write_bytes(segmentation_models(tokenizer)["source"])
            extra = len(tokenizer.settings.tags)
            write_json(directory / "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": extra})
        else:
            write_marian_tokenizer(tokenizer, directory)


def _has_sentinels(tokenizer: ImportedTokenizer) -> bool:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")
    return tokenizer.settings.cut == "sentencepiece" and any("<extra_id_" in piece for piece in pieces)


T5 = T5Family()
