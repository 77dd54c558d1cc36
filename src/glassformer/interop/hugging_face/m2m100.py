"""Hugging Face's M2M100 and NLLB: pre-norm, fairseq's sinusoidal positions, a hundred languages and more."""

from pathlib import Path

from glassformer.data import AnyTokenizer, ImportedTokenizer
from glassformer.interop.hugging_face.bart_like import BartLike, pop_shared_embedding, read_sizes
from glassformer.interop.hugging_face.marian_mt import marian_tokenizer, write_marian_tokenizer
from glassformer.interop.hugging_face.multilingual import multilingual_tokenizer, write_multilingual_tokenizer
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.untrusted_files import Weights
from glassformer.model import ModelConfig


class M2M100Family(BartLike):
    IGNORED_TENSORS = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")

    def read_config(self, options: ImportedOptions, weights: Weights) -> ModelConfig:
        options.require(normalize_before=True, normalize_embedding=False, static_position_embeddings=True)
        sizes = read_sizes(options)
        return ModelConfig(
            vocab_size=options["vocab_size"],
            share_embeddings=pop_shared_embedding(weights),
            positions="sinusoidal-fairseq",
            position_offset=sizes["pad_id"] + 1,  # fairseq counts from after the padding token
            norm_first=True,
            **sizes,
        )

    def read_tokenizer(self, directory: Path, config: ModelConfig) -> ImportedTokenizer | None:
        return multilingual_tokenizer(directory, config) or marian_tokenizer(directory, config)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        write_multilingual_tokenizer(tokenizer, directory, "M2M100Tokenizer")
        write_marian_tokenizer(tokenizer, directory)


M2M100 = M2M100Family("Hugging Face M2M100", "m2m_100", "M2M100ForConditionalGeneration", norm_first=True)
