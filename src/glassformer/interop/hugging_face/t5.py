"""Hugging Face's T5 (1.0 and 1.1), mT5, ByT5 and umT5: relative positions, no biases, RMS norms, unscaled scores."""

import reprlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data import AnyTokenizer, ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import pieces_by_id
from glassformer.data.subword_segmentation import SegmenterKind, SentencePieceSegmenter, bytes_to_unicode
from glassformer.errors import DataError
from glassformer.interop.bounded_files import read_spm
from glassformer.interop.hugging_face.marian_mt import marian_tokenizer, write_marian_tokenizer
from glassformer.interop.hugging_face.multilingual import listed_tokens, read_tokenizer_config
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.name_table import NameTable
from glassformer.interop.tokenizer_files import segmentation_models, sentencepiece_models
from glassformer.interop.untrusted_files import Weights, inside, tensors_equal, write_json
from glassformer.model import ModelConfig

if TYPE_CHECKING:
    from glassformer.model import Transformer
    from glassformer.model.dims import Tensor

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu-tanh", "silu": "silu"}
GATED = ACTIVATIONS | {"gelu": "gelu-tanh"}  # their gated "gelu" is the tanh approximation
FEED_FORWARDS = {name: (ours, False) for name, ours in ACTIVATIONS.items()}
FEED_FORWARDS |= {f"gated-{name}": (ours, True) for name, ours in GATED.items()}
SENTINEL = "<extra_id_"
BYTE_TOKENIZER = "ByT5Tokenizer"
BLOCK, LAYER = "{stack}.block.{n}.layer", "{stack}.layers.{n}"
BIAS = "SelfAttention.relative_attention_bias.weight"


def _attention(theirs: str, ours: str) -> list[tuple[str, str]]:
    rows = [(f"{theirs}.{letter}.weight", f"{ours}.{letter}_proj.weight") for letter in "qkv"]
    return [*rows, (f"{theirs}.o.weight", f"{ours}.out_proj.weight")]


def _feed_forward(stack: str, index: int) -> list[tuple[str, str]]:
    """Name pairs (T5's, ours) of feed-forward weights; T5's are layer 1 in the encoder and layer 2 in the decoder."""
    theirs, ours = f"{stack}.block.{{n}}.layer.{index}", f"{stack}.layers.{{n}}"
    parts = {"wi_0": "gate_proj", "wi_1": "up_proj", "wi": "up_proj", "wo": "down_proj"}
    names = [(f"DenseReluDense.{part}", f"feed_forward.{proj}") for part, proj in parts.items()]
    names.append(("layer_norm", "feed_forward_norm"))
    return [(f"{theirs}.{part}.weight", f"{ours}.{module}.weight") for part, module in names]


ROWS = (
    ("shared.weight", "encoder.embedding.weight"),
    ("{stack}.embed_tokens.weight", "{stack}.embedding.weight"),
    ("lm_head.weight", "output_projection.weight"),
    *_attention(f"{BLOCK}.0.SelfAttention", f"{LAYER}.self_attention"),
    *_attention(f"{BLOCK}.1.EncDecAttention", f"{LAYER}.cross_attention"),
    (f"{BLOCK}.0.layer_norm.weight", f"{LAYER}.self_attention_norm.weight"),
    ("decoder.block.{n}.layer.1.layer_norm.weight", "decoder.layers.{n}.cross_attention_norm.weight"),
    *_feed_forward("encoder", 1),
    *_feed_forward("decoder", 2),
    ("{stack}.final_layer_norm.weight", "{stack}.final_norm.weight"),
)
UNGATED_ROWS = sorted(ROWS, key=lambda row: ".wi_1." in row[0])  # wi comes before wi_1
ONE_BIAS = (f"{{stack}}.block.0.layer.0.{BIAS}", "{stack}.relative_bias.weight")
BIAS_PER_LAYER = (f"{BLOCK}.0.{BIAS}", f"{LAYER}.relative_bias.weight")


class T5Family:
    """Import and export of T5, mT5 and ByT5 (one relative bias for all layers), and of umT5 (one per layer)."""

    # unused, from the original checkpoints
    IGNORED_TENSORS = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)

    def __init__(self, title: str, kind: str, architecture: str, bias: tuple[str, str], positions: str) -> None:
        self.TITLE = title
        self.kind, self.architecture, self.positions = kind, architecture, positions
        self.gated_names, self.ungated_names = (NameTable(bias, *rows) for rows in (ROWS, UNGATED_ROWS))

    def names(self, config: ModelConfig | None = None) -> NameTable:
        """The table of T5's weight names and ours; for import either serves, for export only gated models have wi_1."""
        return self.ungated_names if config is not None and not config.gated else self.gated_names

    def read_config(self, options: ImportedOptions, weights: Weights) -> ModelConfig:
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
            "positions": self.positions,
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
            **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), options.get("dropout_rate", 0.1)),
            "pad_id": options.token("pad_token_id"),
            "eos_id": options.token("eos_token_id"),
            "bos_id": options.token("decoder_start_token_id", options.token("pad_token_id")),
        }
        return ModelConfig(**settings)

    def extra_tensors(self, model: "Transformer", max_tokens: int) -> "dict[str, Tensor]":
        return {}

    def write_config(self, config: ModelConfig, max_tokens: int) -> dict[str, Any]:
        kinds = {ours: theirs for theirs, ours in reversed(FEED_FORWARDS.items())}
        return {
            "model_type": self.kind,
            "architectures": [self.architecture],
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

    def read_tokenizer(self, directory: Path, config: ModelConfig) -> ImportedTokenizer | None:
        """Read T5's tokenizer: spiece.model, then the sentinels in reverse order, unless it has them, as mT5's does.

        ByT5's has no files but its settings.
        """
        about = read_tokenizer_config(directory)
        if about.get("tokenizer_class") == BYTE_TOKENIZER:
            return _byte_tokenizer(about, config)
        if not (directory / "spiece.model").exists():
            return marian_tokenizer(directory, config)
        model = read_spm(inside(directory, "spiece.model"), config.vocab_size)
        pieces = SentencePieceSegmenter(model).pieces()
        sentinels = [piece for piece in pieces if SENTINEL in piece]
        if not sentinels:
            sentinels = _sentinels(about, 100, config)[::-1]
            pieces += sentinels
        return _tokenizer("sentencepiece", pieces, sentinels, model, config)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        """Write a T5 tokenizer unchanged, others as Marian's: T5Tokenizer supports only T5's ids and unigram scores."""
        settings = tokenizer.settings
        about: dict[str, Any]
        if isinstance(settings, ImportedTokenizerSettings) and settings.cut == "bytes":
            count = sum(SENTINEL in tag for tag in settings.tags)
            about = {"tokenizer_class": BYTE_TOKENIZER, "extra_ids": count, "additional_special_tokens": settings.tags}
        elif isinstance(settings, ImportedTokenizerSettings) and _has_sentinels(tokenizer):
            about = {"tokenizer_class": "T5Tokenizer", "extra_ids": len(settings.tags)}
            (directory / "spiece.model").write_bytes(segmentation_models(tokenizer)["source"])
        else:
            write_marian_tokenizer(tokenizer, directory)
            return
        write_json(directory / "tokenizer_config.json", about)


def _byte_tokenizer(about: dict[str, Any], config: ModelConfig) -> ImportedTokenizer:
    """ByT5's tokenizer: three special tokens, the 256 bytes, and the sentinels."""
    pieces = ["<pad>", "</s>", "<unk>", *bytes_to_unicode().values()]
    if len(pieces) > config.vocab_size:
        raise DataError(f"{BYTE_TOKENIZER} needs {len(pieces)} tokens, but the model has {config.vocab_size}.")
    listed = [token for token in listed_tokens(about) if token and token not in pieces]
    sentinels = listed or _sentinels(about, 125, config)
    return _tokenizer("bytes", [*pieces, *sentinels], sentinels, b"", config)


def _tokenizer(
    cut: SegmenterKind, pieces: list[str], sentinels: list[str], model: bytes, config: ModelConfig
) -> ImportedTokenizer:
    ids = {piece: i for i, piece in reversed(list(enumerate(pieces[: config.vocab_size])))}
    vocabulary, named = pieces_by_id(ids, config.vocab_size), {*sentinels}
    settings = ImportedTokenizerSettings(
        cut=cut,
        joint=True,
        after_source=["</s>"],
        after_target=["</s>"],
        tags=[piece for piece in vocabulary if piece in named],
        hidden=["<pad>"],
    )
    return ImportedTokenizer.joint(settings, vocabulary, model)


def _sentinels(about: dict[str, Any], default: int, config: ModelConfig) -> list[str]:
    """<extra_id_0>, <extra_id_1>, ...: as many as the tokenizer's settings list or count."""
    count = len([token for token in listed_tokens(about) if SENTINEL in token]) or about.get("extra_ids", default)
    if type(count) is not int or count < 0:
        shown = reprlib.repr(count)
        raise DataError(f"tokenizer_config.json has extra_ids = {shown}, which is not a number of tokens.")
    return [f"{SENTINEL}{number}>" for number in range(min(count, config.vocab_size))]


def _has_sentinels(tokenizer: AnyTokenizer) -> bool:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")
    return sentencepiece_models(tokenizer) is not None and any(SENTINEL in piece for piece in pieces)


T5 = T5Family("Hugging Face T5", "t5", "T5ForConditionalGeneration", ONE_BIAS, "relative")
UMT5 = T5Family("Hugging Face umT5", "umt5", "UMT5ForConditionalGeneration", BIAS_PER_LAYER, "relative-per-layer")
