"""Import and export of Hugging Face directories: config.json, model.safetensors and tokenizer files.

Each model family has its own module; this is what they have in common. The package `transformers` is not needed.
"""

import reprlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glassformer.data import AnyTokenizer, ImportedTokenizer
from glassformer.errors import DirectoryError, InputError
from glassformer.interop.capabilities import unsupported
from glassformer.interop.hugging_face import bart, m2m100, t5
from glassformer.interop.hugging_face import marian_mt as marian
from glassformer.interop.hugging_face.tokenizer_json import json_tokenizer, write_json_tokenizer
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.name_table import NameTable
from glassformer.interop.untrusted_files import (
    Weights,
    error_context,
    inside,
    read_json,
    read_safetensors,
    renamed,
    write_json,
)
from glassformer.model import ModelConfig
from glassformer.model.directory import with_weights, write_weights

if TYPE_CHECKING:
    from glassformer.model import Transformer
    from glassformer.model.dims import Tensor

RUNS_CODE = ("auto_map", "trust_remote_code", "_attn_implementation_internal", "custom_pipelines")
"""Entries of config.json that select custom code to load the model."""
SIZES = ("vocab_size", "d_model", "max_position_embeddings")
TOKENS = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
"""Special-token settings, which must be integers in every family."""


class Family(Protocol):
    """Conversion between a family of Hugging Face models and ours, in both directions."""

    @property
    def TITLE(self) -> str: ...  # noqa: N802 (a constant of each family)

    @property
    def IGNORED_TENSORS(self) -> tuple[str, ...]:  # noqa: N802
        """Tensors of the checkpoint that are not weights."""

    def names(self, config: ModelConfig | None = None) -> NameTable:
        """The table of weight names, Hugging Face's and ours; `config`: of a model to export."""

    def read_config(self, options: ImportedOptions, weights: Weights) -> ModelConfig:
        """Our config from Hugging Face's settings; an unsupported setting is an error that names it.

        `weights` have our names; those that our model does not need are removed.
        """

    def write_config(self, config: ModelConfig, max_tokens: int) -> dict[str, Any]:
        """Hugging Face's settings (config.json) from our config, with the maximum sentence length."""

    def extra_tensors(self, model: "Transformer", max_tokens: int) -> "dict[str, Tensor]":
        """Tensors that Hugging Face's files store and our model computes or shares."""

    def read_tokenizer(self, directory: Path, config: ModelConfig) -> ImportedTokenizer | None:
        """Read the tokenizer of a directory; None if the directory has none of this family's kind."""

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        """Write the family's tokenizer files; nothing if the family does not support such a tokenizer."""


FAMILIES: dict[str, Family] = {
    "marian": marian.MARIAN,
    "pegasus": marian.PEGASUS,
    "bart": bart.BART,
    "mbart": bart.MBART,
    "m2m_100": m2m100.M2M100,
    "t5": t5.T5,
    "mt5": t5.T5,
    "umt5": t5.UMT5,
}


def is_hugging_face(directory: Path) -> bool:
    """Whether a directory is Hugging Face's: our model directories have a config.json as well."""
    path = directory / "config.json"
    return path.exists() and "model_type" in read_json(inside(directory, path.name))


def open_hugging_face(directory: Path) -> ImportedModel:
    """Import a Hugging Face directory of any supported family."""
    options = read_options(directory)
    kind = options.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        supported = ", ".join(FAMILIES)
        raise InputError(f"{options.where} has model_type {reprlib.repr(kind)}; supported are {supported}.")
    family = FAMILIES[kind]
    if not any((directory / name).exists() for name in ("model.safetensors", "model.safetensors.index.json")):
        way_out = "copy or download it again"
        if (directory / "pytorch_model.bin").exists():
            way_out = "pytorch_model.bin is not supported, save the model again with save_pretrained"
        raise DirectoryError(f"{directory} has no model.safetensors: {way_out}.")
    weights = renamed(read_safetensors(directory), family.names(), directory, family.IGNORED_TENSORS)
    with error_context(options.where):
        config = family.read_config(options, weights)
    model = with_weights(config, without_duplicates(weights, config, directory), where=directory)
    with error_context(directory):
        tokenizer, note = family.read_tokenizer(directory, config), None
        if tokenizer is None:
            tokenizer, note = json_tokenizer(directory, kind, config)
    no_tokenizer = "No readable tokenizer was found: the model takes token ids, not text."
    return ImportedModel(family.TITLE, model, tokenizer, [] if tokenizer else [note or no_tokenizer])


def read_options(directory: Path) -> ImportedOptions:
    """Read config.json, with the start, end and padding tokens overridden by generation_config.json."""
    path = inside(directory, "config.json")
    values = read_json(path)
    for name in RUNS_CODE:
        if values.get(name):
            raise DirectoryError(f"{path} asks to run custom code ({name}), which is not supported: remove that entry.")
    generation = directory / "generation_config.json"
    if generation.exists():
        overrides = read_json(inside(directory, generation.name))
        values |= {name: overrides[name] for name in TOKENS if overrides.get(name) is not None}
    options = ImportedOptions(values, str(path))
    options.require_integers(*SIZES)
    options.require_integers(*TOKENS, several=True)
    return options


def without_duplicates(weights: Weights, config: ModelConfig, where: Path) -> Weights:
    """The weights with each shared one kept once; an error if weights that the config shares differ."""
    kept = dict(weights)
    shared = [("encoder.embedding.weight", "decoder.embedding.weight")] if config.share_embeddings else []
    if config.tie_output:
        shared.append(("decoder.embedding.weight", "output_projection.weight"))
    for first, second in shared:
        weight = kept.get(first, kept.get("encoder.embedding.weight") if config.share_embeddings else None)
        duplicate = kept.pop(second, None)
        if weight is None and duplicate is not None:
            kept[first] = duplicate
        elif duplicate is not None and weight is not None and not np.array_equal(weight, duplicate):
            raise DirectoryError(f"{where} has different {first} and {second}, but its config says they are shared.")
    return kept


def family_of(config: ModelConfig) -> Family:
    """The first Hugging Face family that supports a model of this config."""
    kind = min(FAMILIES, key=lambda kind: len(unsupported(kind, config)))
    family = FAMILIES[kind]
    if options := unsupported(kind, config):
        raise InputError(
            f"No Hugging Face family supports this model; {family.TITLE} comes closest, but does not support "
            f"{', '.join(options)}."
        )
    return family


def state_dict(model: "Transformer", family: Family, max_tokens: int) -> "dict[str, Tensor]":
    """A model's weights under Hugging Face's names, shared ones once; position tables have `max_tokens` rows."""
    tensors: dict[str, Tensor] = {}
    names = family.names(model.config)
    for name, weight in model.named_parameters():
        theirs = names.theirs(name)
        if theirs is None:
            raise InputError(f"{family.TITLE} has no weight that corresponds to {name}.")
        tensors[theirs] = weight.detach()[None] if theirs == "final_logits_bias" else weight.detach()
    return tensors | family.extra_tensors(model, max_tokens)


def in_transformers(config: ModelConfig, max_tokens: int = 1024) -> Any:
    """A new `transformers` model of this config, for sentences of at most `max_tokens` tokens."""
    try:
        transformers = import_module("transformers")
    except ImportError:
        raise InputError("Hugging Face's transformers is not installed: `pip install transformers`.") from None
    options = family_of(config).write_config(config, max_tokens)
    return transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(**options))


def as_transformers(model: "Transformer", max_tokens: int = 1024) -> Any:
    """Convert a model to a `transformers` model with the same weights."""
    family = family_of(model.config)
    theirs = in_transformers(model.config, max_tokens)
    unexpected = theirs.load_state_dict(state_dict(model, family, max_tokens), strict=False).unexpected_keys
    assert not unexpected, unexpected
    theirs.tie_weights()
    return theirs.eval()


def write_hugging_face(
    model: "Transformer", tokenizer: AnyTokenizer | None, directory: Path, max_tokens: int = 1024
) -> str:
    """Write a model as Hugging Face's files into an existing directory; returns the name of the family."""
    config, family = model.config, family_of(model.config)
    options = family.write_config(config, max_tokens)
    generation = {name: options[name] for name in TOKENS}
    generation |= {"bad_words_ids": [[config.pad_id]], "num_beams": 4, "max_length": config.max_tokens or max_tokens}
    write_json(directory / "config.json", options)
    write_json(directory / "generation_config.json", generation)
    write_weights(state_dict(model, family, max_tokens), directory / "model.safetensors", {"format": "pt"})
    if tokenizer is not None and not write_json_tokenizer(tokenizer, directory, options["model_type"]):
        family.write_tokenizer(tokenizer, directory)
    return family.TITLE
