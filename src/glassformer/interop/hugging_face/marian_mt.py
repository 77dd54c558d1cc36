"""Hugging Face's Marian (Helsinki-NLP's OPUS-MT and others), and Pegasus, its pre-norm variant."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data import AnyTokenizer, ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import pieces_by_id
from glassformer.data.tokenizer import SIDES
from glassformer.interop.bounded_files import read_spm, read_vocab_json
from glassformer.interop.hugging_face.bart_like import BartLike, pop_shared_embedding, pop_zero_bias, read_sizes
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.tokenizer_files import sentencepiece_models, write_vocab_json
from glassformer.interop.untrusted_files import Weights, inside, read_json, write_json
from glassformer.model import ModelConfig
from glassformer.model.position_kinds import Layout, halves, interleaved

if TYPE_CHECKING:
    from glassformer.model import Transformer
    from glassformer.model.dims import Tensor


class MarianFamily(BartLike):
    """Import and export of Marian and Pegasus: sinusoidal positions, biases everywhere, also one per output token."""

    def read_config(self, options: ImportedOptions, weights: Weights) -> ModelConfig:
        options.require(
            normalize_before=self.norm_first,
            normalize_embedding=False,
            add_final_layer_norm=self.norm_first,
            static_position_embeddings=True,
        )
        size = options["vocab_size"]
        shared = pop_shared_embedding(weights)
        return ModelConfig(
            source_vocab_size=size,
            vocab_size=size if shared else options.get("decoder_vocab_size", size),
            share_embeddings=shared,
            norm_first=self.norm_first,
            output_bias=pop_zero_bias(weights),
            **pop_sinusoids(weights),
            **read_sizes(options),
        )

    def extra_tensors(self, model: "Transformer", max_tokens: int) -> "dict[str, Tensor]":
        """Tables of interleaved sines and cosines, if the model has these; `transformers` computes its own layout."""
        shared = super().extra_tensors(model, max_tokens) if self.norm_first else {}
        if model.config.positions != "sinusoidal":
            return shared
        return shared | {
            f"model.{name}.embed_positions.weight": stack.position(0, max_tokens, like=stack.embedding.weight).clone()
            for name, stack in (("encoder", model.encoder), ("decoder", model.decoder))
            if stack.position is not None
        }

    def write_config(self, config: ModelConfig, max_tokens: int) -> dict[str, Any]:
        options = super().write_config(config, config.max_tokens or max_tokens)
        options |= {"vocab_size": config.source_vocab_size, "static_position_embeddings": True}
        if not self.norm_first:
            options["decoder_vocab_size"] = config.vocab_size
            options["share_encoder_decoder_embeddings"] = config.share_embeddings
        return options

    def read_tokenizer(self, directory: Path, config: ModelConfig) -> ImportedTokenizer | None:
        return marian_tokenizer(directory, config)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        write_marian_tokenizer(tokenizer, directory)


MARIAN = MarianFamily("Hugging Face Marian", "marian", "MarianMTModel", norm_first=False)
PEGASUS = MarianFamily("Hugging Face Pegasus", "pegasus", "PegasusForConditionalGeneration", norm_first=True)


def marian_tokenizer(directory: Path, config: ModelConfig) -> ImportedTokenizer | None:
    """Read a Marian tokenizer: source.spm, target.spm and vocab.json (piece to id); None if one is missing."""
    if not all((directory / name).exists() for name in ("source.spm", "target.spm", "vocab.json")):
        return None
    path = directory / "tokenizer_config.json"
    separate = path.exists() and bool(read_json(inside(directory, path.name)).get("separate_vocabs"))
    size = max(config.source_vocab_size, config.vocab_size)
    source = read_vocab_json(directory, "vocab.json", size)
    target = read_vocab_json(directory, "target_vocab.json", size) if separate else source
    settings = ImportedTokenizerSettings(
        cut="sentencepiece",
        joint=not separate,
        after_source=["</s>"],
        after_target=["</s>"],
        opening=[">>", "<<"],
        hidden=["<pad>"],
    )
    return ImportedTokenizer(
        settings,
        {"source": pieces_by_id(source, config.source_vocab_size), "target": pieces_by_id(target, config.vocab_size)},
        {side: read_spm(inside(directory, f"{side}.spm"), size) for side in SIDES},
    )


def write_marian_tokenizer(tokenizer: AnyTokenizer, directory: Path) -> None:
    """Write the files of MarianTokenizer: two SentencePiece models and the ids of their pieces.

    It supports arbitrary ids, so other families use it where their own tokenizer does not support a vocabulary.
    """
    settings, models = tokenizer.settings, sentencepiece_models(tokenizer)
    if models is None or getattr(settings, "languages", None):
        return
    for side in SIDES:
        (directory / f"{side}.spm").write_bytes(models[side])
        if side == "source" or not settings.joint:
            write_vocab_json(tokenizer, side, directory / ("vocab.json" if side == "source" else "target_vocab.json"))
    options = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not settings.joint, "model_max_length": 512}
    pieces = set(tokenizer.pieces(range(tokenizer.vocab_size("source")), "source"))
    hidden = getattr(settings, "hidden", [])  # Marian's own files have no name for the padding token
    pad = next((piece for piece in ("<pad>", *hidden) if piece in pieces), "<pad>")
    options |= {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": pad}
    write_json(directory / "tokenizer_config.json", options)


def pop_sinusoids(weights: Weights) -> dict[str, Any]:
    """Detect the kind of positions; a table of plain sinusoids is removed from `weights`, any other was learned."""
    tables = [weights.get(f"{stack}.position.weight") for stack in ("encoder", "decoder")]
    if any(table is None or table.ndim != 2 for table in tables):
        return {"positions": "sinusoidal-halves"}
    for kind, layout in (("sinusoidal-halves", halves), ("sinusoidal", interleaved)):
        if all(table is not None and is_sinusoidal(table, layout) for table in tables):
            for stack in ("encoder", "decoder"):
                del weights[f"{stack}.position.weight"]
            return {"positions": kind}
    return {"positions": "learned", "max_positions": min(len(table) for table in tables if table is not None)}


def is_sinusoidal(table: NDArray[np.float32], layout: Layout) -> bool:
    if table.shape[0] > 2**20 or table.shape[1] < 2:
        return False
    return np.allclose(layout(*table.shape), table, rtol=0, atol=1e-5)
