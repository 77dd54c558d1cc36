"""Hugging Face's BART and mBART: learned positions with offset 2, and a norm on the embeddings."""

from pathlib import Path
from typing import Any

from glassformer.data import AnyTokenizer, ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import pieces_by_id
from glassformer.interop.bounded_files import read_merges, read_vocab_json
from glassformer.interop.hugging_face.bart_like import BartLike, pop_shared_embedding, pop_zero_bias, read_sizes
from glassformer.interop.hugging_face.marian_mt import marian_tokenizer, write_marian_tokenizer
from glassformer.interop.hugging_face.multilingual import (
    MBART_LANGUAGES,
    multilingual_tokenizer,
    write_multilingual_tokenizer,
)
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.tokenizer_files import segmentation_models, write_vocab_json
from glassformer.interop.untrusted_files import Weights, inside, write_json
from glassformer.model import ModelConfig

OFFSET = 2
"""Index of the first position, from fairseq, which counts positions from after the padding token."""


class BartFamily(BartLike):
    """Import and export of BART (post-norm) and mBART (pre-norm)."""

    IGNORED_TENSORS = ("model.encoder.version", "model.decoder.version")

    def read_config(self, options: ImportedOptions, weights: Weights) -> ModelConfig:
        options.require(
            normalize_before=self.norm_first,
            normalize_embedding=True,
            add_final_layer_norm=self.norm_first,
            static_position_embeddings=False,
            extra_pos_embeddings=OFFSET,
        )
        return ModelConfig(
            vocab_size=options["vocab_size"],
            share_embeddings=pop_shared_embedding(weights),
            positions="learned",
            max_positions=options["max_position_embeddings"] + OFFSET,
            position_offset=OFFSET,
            embedding_norm=True,
            norm_first=self.norm_first,
            output_bias=pop_zero_bias(weights),
            **read_sizes(options),
        )

    def write_config(self, config: ModelConfig, max_tokens: int) -> dict[str, Any]:
        return super().write_config(config, config.max_positions - OFFSET)

    def read_tokenizer(self, directory: Path, config: ModelConfig) -> ImportedTokenizer | None:
        """Read the tokenizer: vocab.json and merges.txt (BART, byte-level BPE), or a SentencePiece model (mBART)."""
        if self.norm_first:
            return multilingual_tokenizer(directory, config, MBART_LANGUAGES) or marian_tokenizer(directory, config)
        if not all((directory / name).exists() for name in ("vocab.json", "merges.txt")):
            return marian_tokenizer(directory, config)
        ids = read_vocab_json(directory, "vocab.json", config.vocab_size)
        if ids.get("<mask>") == config.vocab_size:
            del ids["<mask>"]  # summarisation models have no row for it, but their vocabularies have it
        vocabulary = pieces_by_id(ids, config.vocab_size)
        merges = read_merges(inside(directory, "merges.txt"), config.vocab_size)
        settings = ImportedTokenizerSettings(
            cut="byte-level",
            joint=True,
            before_source=["<s>"],
            after_source=["</s>"],
            before_target=["<s>"],
            after_target=["</s>"],
            tags=["<mask>"] if "<mask>" in vocabulary else [],
            hidden=["<pad>", "<mask>"],
        )
        return ImportedTokenizer.joint(settings, vocabulary, merges)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        if self.norm_first:
            write_multilingual_tokenizer(tokenizer, directory, "MBart50Tokenizer")
            write_marian_tokenizer(tokenizer, directory)
        elif isinstance(tokenizer, ImportedTokenizer) and tokenizer.settings.cut == "byte-level":
            write_vocab_json(tokenizer, "source", directory / "vocab.json")
            (directory / "merges.txt").write_bytes(segmentation_models(tokenizer)["source"])
            write_json(directory / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer"})
        else:
            write_marian_tokenizer(tokenizer, directory)


BART = BartFamily("Hugging Face BART", "bart", "BartForConditionalGeneration", norm_first=False)
MBART = BartFamily("Hugging Face mBART", "mbart", "MBartForConditionalGeneration", norm_first=True)
