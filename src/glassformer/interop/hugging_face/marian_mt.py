"""Hugging Face's Marian (Helsinki-NLP's OPUS-MT and others), and Pegasus, the same with the norms first."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.data import AnyTokenizer, ForeignSettings, ForeignTokenizer
from glassformer.data.foreign_tokenizer import by_number
from glassformer.data.tokenizer import SIDES
from glassformer.interop.bounded_files import read_numbers, read_spm
from glassformer.interop.foreign_options import ForeignOptions
from glassformer.interop.hugging_face.bart_like import BartLike, read_sizes, take_bias, take_embeddings
from glassformer.interop.tokenizer_files import spm_models, write_numbers
from glassformer.interop.untrusted_files import inside, read_json, write_json
from glassformer.model import ModelConfig, Transformer
from glassformer.model.positions import sinusoids


class MarianFamily(BartLike):
    """Sine waves that may also stand in the file, biases everywhere, one bias a token of the output."""

    def read_config(self, options: ForeignOptions, weights: dict[str, Tensor]) -> ModelConfig:
        options.only(
            normalize_before=self.norm_first,
            normalize_embedding=False,
            add_final_layer_norm=self.norm_first,
            static_position_embeddings=True,
        )
        size = options["vocab_size"]
        shared = take_embeddings(weights)
        return ModelConfig(
            source_vocab_size=size,
            vocab_size=size if shared else options.get("decoder_vocab_size", size),
            share_embeddings=shared,
            norm_first=self.norm_first,
            output_bias=take_bias(weights),
            **take_waves(weights),
            **read_sizes(options),
        )

    def cannot(self, config: ModelConfig) -> dict[str, bool]:
        own = {
            "positions": config.positions not in ("sinusoidal", "sinusoidal-halves", "learned"),
            "position_offset": config.position_offset > 0,
            "embedding_norm": config.embedding_norm,
        }
        return own if self.norm_first else own | {"share_embeddings": False}  # Marian can share any of its matrices

    def tables(self, model: Transformer, longest: int) -> dict[str, Tensor]:
        """Sine waves in our order; theirs they make themselves."""
        unused = super().tables(model, longest) if self.norm_first else {}
        if model.config.positions != "sinusoidal":
            return unused
        return unused | {
            f"model.{name}.embed_positions.weight": stack.position(0, longest, like=stack.embedding.weight).clone()
            for name, stack in (("encoder", model.encoder), ("decoder", model.decoder))
            if stack.position is not None
        }

    def write_config(self, config: ModelConfig, longest: int) -> dict[str, Any]:
        options = super().write_config(config, config.max_tokens or longest)
        options |= {"vocab_size": config.source_vocab_size, "static_position_embeddings": True}
        if not self.norm_first:
            options |= {
                "decoder_vocab_size": config.vocab_size,
                "share_encoder_decoder_embeddings": config.share_embeddings,
            }
        return options

    def read_tokenizer(self, directory: Path, options: ForeignOptions, config: ModelConfig) -> ForeignTokenizer | None:
        return marian_tokenizer(directory, config)

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        write_marian_tokenizer(tokenizer, directory)


MARIAN = MarianFamily("Hugging Face Marian", "marian", "MarianMTModel", norm_first=False)
PEGASUS = MarianFamily("Hugging Face Pegasus", "pegasus", "PegasusForConditionalGeneration", norm_first=True)


def marian_tokenizer(directory: Path, config: ModelConfig) -> ForeignTokenizer | None:
    """source.spm, target.spm and vocab.json, which gives each piece its number; None where one is missing."""
    if not all((directory / name).exists() for name in ("source.spm", "target.spm", "vocab.json")):
        return None
    about = directory / "tokenizer_config.json"
    apart = about.exists() and bool(read_json(inside(directory, about.name)).get("separate_vocabs"))
    most = max(config.source_vocab_size, config.vocab_size)
    numbers = read_numbers(directory, "vocab.json", most)
    target = read_numbers(directory, "target_vocab.json", most) if apart else numbers
    settings = ForeignSettings(
        cut="sentencepiece",
        joint=not apart,
        after_source=["</s>"],
        after_target=["</s>"],
        opening=[">>", "<<"],
        hidden=["<pad>"],
    )
    return ForeignTokenizer(
        settings,
        {"source": by_number(numbers, config.source_vocab_size), "target": by_number(target, config.vocab_size)},
        {side: read_spm(inside(directory, f"{side}.spm"), most) for side in SIDES},
    )


def write_marian_tokenizer(tokenizer: AnyTokenizer, directory: Path) -> None:
    """As MarianTokenizer reads it: SentencePiece's two models, and the numbers of pieces beside them.

    It can have any numbers, so it serves other families too, where their own cannot.
    """
    settings, models = tokenizer.settings, spm_models(tokenizer)
    if models is None or getattr(settings, "languages", None):
        return
    for side in SIDES:
        (directory / f"{side}.spm").write_bytes(models[side])
        if side == "source" or not settings.joint:
            write_numbers(tokenizer, side, directory / ("vocab.json" if side == "source" else "target_vocab.json"))
    about = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not settings.joint, "model_max_length": 512}
    pieces = set(tokenizer.pieces(range(tokenizer.vocab_size("source")), "source"))
    hidden = getattr(settings, "hidden", [])  # Marian's own files have no name for what fills up
    pad = next((piece for piece in ("<pad>", *hidden) if piece in pieces), "<pad>")
    about |= {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": pad}
    write_json(directory / "tokenizer_config.json", about)


def take_waves(weights: dict[str, Tensor]) -> dict[str, Any]:
    """Which positions they are: a table that holds just our sine waves is dropped, any other was learned."""
    tables = [weights.get(f"{stack}.position.weight") for stack in ("encoder", "decoder")]
    if any(table is None or table.dim() != 2 for table in tables):
        return {"positions": "sinusoidal-halves"}
    for waves in ("sinusoidal-halves", "sinusoidal"):
        if all(table is not None and is_waves(table, waves) for table in tables):
            for stack in ("encoder", "decoder"):
                del weights[f"{stack}.position.weight"]
            return {"positions": waves}
    return {"positions": "learned", "max_positions": min(len(table) for table in tables if table is not None)}


def is_waves(table: Tensor, waves: Any) -> bool:
    if table.shape[0] > 2**20 or table.shape[1] < 2:
        return False
    ours = sinusoids(len(table), table.shape[1], waves, torch.float32, torch.device("cpu"))
    return torch.allclose(ours, table.float(), rtol=0, atol=1e-5)
