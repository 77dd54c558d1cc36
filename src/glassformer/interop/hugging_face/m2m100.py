"""Hugging Face's M2M100 and NLLB: norms first, fairseq's sine waves, a hundred languages and more."""

from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.data import AnyTokenizer, ForeignTokenizer
from glassformer.interop.hugging_face import bart_like
from glassformer.interop.hugging_face.bart_like import half_shared, said, take_embeddings, unused_embedding
from glassformer.interop.hugging_face.marian import marian_tokenizer, write_marian_tokenizer
from glassformer.interop.hugging_face.multilingual import multilingual_tokenizer, write_multilingual_tokenizer
from glassformer.interop.names import Names
from glassformer.interop.options import Options
from glassformer.model import ModelConfig, Transformer


class M2M100Family:
    TITLE = "Hugging Face M2M100"
    PASSED_OVER = (
        "model.encoder.embed_positions.weights",
        "model.decoder.embed_positions.weights",
    )

    def names(self, config: ModelConfig | None = None) -> Names:
        return bart_like.names(config)

    def read_config(self, options: Options, weights: dict[str, Tensor]) -> ModelConfig:
        options.only(normalize_before=True, normalize_embedding=False, static_position_embeddings=True)
        sizes = bart_like.read_sizes(options)
        return ModelConfig(
            vocab_size=options["vocab_size"],
            share_embeddings=take_embeddings(weights),
            positions="sinusoidal-fairseq",
            position_offset=sizes["pad_id"] + 1,  # fairseq counts from behind the padding token
            norm_first=True,
            **sizes,
        )

    def refused(self, config: ModelConfig) -> list[str]:
        wrong = {
            "positions": config.positions != "sinusoidal-fairseq",
            "position_offset": config.position_offset != config.pad_id + 1,
            "norm_first": not config.norm_first,
            "embedding_norm": config.embedding_norm,
            "output_bias": config.output_bias,
            "share_embeddings": half_shared(config),
        }
        return [*said(config, wrong), *bart_like.not_alike(config)]

    def tables(self, model: Transformer, longest: int) -> dict[str, Tensor]:
        return unused_embedding(model)

    def write_config(self, config: ModelConfig, longest: int) -> dict[str, Any]:
        return {
            **bart_like.write_sizes(config),
            "model_type": "m2m_100",
            "architectures": ["M2M100ForConditionalGeneration"],
            "max_position_embeddings": longest,
        }

    def read_tokenizer(self, directory: Path, options: Options, config: ModelConfig) -> ForeignTokenizer | None:
        return multilingual_tokenizer(directory, config) or marian_tokenizer(directory, config)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        write_multilingual_tokenizer(tokenizer, directory, "M2M100Tokenizer")
        write_marian_tokenizer(tokenizer, directory)


M2M100 = M2M100Family()
