"""Hugging Face's directories: config.json, model.safetensors and the files of a tokenizer, in and out.

What is particular to a family stands in a file of its own; here is what they have in common. Nothing needs the package
`transformers`.
"""

import reprlib
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from glassformer.data import AnyTokenizer, ForeignTokenizer
from glassformer.errors import DirectoryError, InputError
from glassformer.interop.foreign_options import ForeignOptions
from glassformer.interop.hugging_face import bart, m2m100, t5
from glassformer.interop.hugging_face import marian_mt as marian
from glassformer.interop.hugging_face.tokenizer_json import json_tokenizer, write_json_tokenizer
from glassformer.interop.imported import ImportedModel
from glassformer.interop.name_table import NameTable
from glassformer.interop.untrusted_files import inside, naming, read_json, read_safetensors, renamed, write_json
from glassformer.model import ModelConfig, Transformer
from glassformer.model.directory import with_weights, write_weights

RUNS_CODE = ("auto_map", "trust_remote_code", "_attn_implementation_internal", "custom_pipelines")
"""Entries of config.json with which a file could choose the code that opens it."""
SIZES = ("vocab_size", "d_model", "max_position_embeddings")
TOKENS = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
"""Entries that are calculated with, whichever the family."""


class Family(Protocol):
    """What there is to know of one family."""

    @property
    def TITLE(self) -> str: ...  # noqa: N802 (a constant of each)

    @property
    def PASSED_OVER(self) -> tuple[str, ...]:  # noqa: N802
        """Tensors that are no weights."""

    def names(self, config: ModelConfig | None = None) -> NameTable:
        """The table of tensors; for writing a model of this config, if one is given."""

    def read_config(self, options: ForeignOptions, weights: dict[str, Tensor]) -> ModelConfig:
        """Their settings as ours; what we do not have is refused by name. `weights` have our names, and
        lose what is not one of ours after all."""

    def refused(self, config: ModelConfig) -> list[str]:
        """The options of one of our models that this family cannot have, each as `name = value`."""

    def write_config(self, config: ModelConfig, longest: int) -> dict[str, Any]:
        """Our settings as theirs; they want to know the longest sentence."""

    def tables(self, model: Transformer, longest: int) -> dict[str, Tensor]:
        """What their files hold and ours compute."""

    def read_tokenizer(self, directory: Path, options: ForeignOptions, config: ModelConfig) -> ForeignTokenizer | None:
        """The tokenizer of a directory; None if it has none of this family."""

    def write_tokenizer(self, tokenizer: AnyTokenizer, directory: Path) -> None:
        """Its files as this family has them; nothing, if it cannot have such a one."""


FAMILIES: dict[str, Family] = {
    "marian": marian.MARIAN,
    "pegasus": marian.PEGASUS,
    "bart": bart.BART,
    "mbart": bart.MBART,
    "m2m_100": m2m100.M2M100,
    "t5": t5.T5,
    "mt5": t5.T5,
}


def is_hugging_face(directory: Path) -> bool:
    """Whether these are files of theirs: both programs call their settings config.json."""
    path = directory / "config.json"
    return path.exists() and "model_type" in read_json(inside(directory, path.name))


def open_hugging_face(directory: Path) -> ImportedModel:
    """The model of a directory, whichever family it is of."""
    options = read_options(directory)
    kind = options.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise InputError(f"{options.where} is of a {reprlib.repr(kind)}: of Hugging Face's, {known} can be opened.")
    family = FAMILIES[kind]
    if not any((directory / name).exists() for name in ("model.safetensors", "model.safetensors.index.json")):
        old = (directory / "pytorch_model.bin").exists()
        way_out = "pytorch_model.bin is not read, save it anew with their save_pretrained" if old else "add it"
        raise DirectoryError(f"{directory} has no model.safetensors: {way_out}.")
    weights = renamed(read_safetensors(directory), family.names(), directory, family.PASSED_OVER)
    with naming(options.where):
        config = family.read_config(options, weights)
    model = with_weights(config, untied(weights, config, directory), where=directory)
    with naming(directory):
        tokenizer, note = family.read_tokenizer(directory, options, config), None
        if tokenizer is None:
            tokenizer, note = json_tokenizer(directory, kind, config)
    nothing = "There is no tokenizer that can be read beside it: it takes ids, not text."
    return ImportedModel(family.TITLE, model, tokenizer, [] if tokenizer else [note or nothing])


def read_options(directory: Path) -> ForeignOptions:
    """config.json, and over it what generation_config.json says of how a target begins and ends."""
    path = inside(directory, "config.json")
    values = read_json(path)
    for name in RUNS_CODE:
        if values.get(name):
            raise DirectoryError(f"{path} asks for code of its own to be run ({name}), and none is: remove that entry.")
    generation = directory / "generation_config.json"
    if generation.exists():
        over = read_json(inside(directory, generation.name))
        values |= {name: over[name] for name in TOKENS if over.get(name) is not None}
    options = ForeignOptions(values, str(path))
    options.whole(*SIZES)
    options.whole(*TOKENS, several=True)
    return options


def untied(weights: dict[str, Tensor], config: ModelConfig, where: Path) -> dict[str, Tensor]:
    """Weights that the config says are shared, once; it is an error if they are not the same."""
    found = dict(weights)
    shared = [("encoder.embedding.weight", "decoder.embedding.weight")] if config.share_embeddings else []
    if config.tie_output:
        shared.append(("decoder.embedding.weight", "output_projection.weight"))
    for first, second in shared:
        twin = found.get(first, found.get("encoder.embedding.weight") if config.share_embeddings else None)
        other = found.pop(second, None)
        if twin is None and other is not None:
            found[first] = other
        elif other is not None and twin is not None and not torch.equal(twin, other):
            raise DirectoryError(f"{where} has {first} and {second} apart, and its config says they are the same.")
    return found


def family_of(config: ModelConfig) -> Family:
    """The family that can hold such a model: Marian's if any can."""
    family = min(FAMILIES.values(), key=lambda one: len(one.refused(config)))
    if refused := family.refused(config):
        raise InputError(
            f"None of Hugging Face's families can hold this model; {family.TITLE} comes nearest, and lacks "
            f"{', '.join(refused)}."
        )
    return family


def state_dict(model: Transformer, family: Family, longest: int) -> dict[str, Tensor]:
    """A model's weights under their names, shared ones once; tables of positions, where they need them, so long."""
    found: dict[str, Tensor] = {}
    names = family.names(model.config)
    for name, weight in model.named_parameters():
        theirs = names.theirs(name)
        if theirs is None:
            raise InputError(f"{family.TITLE} has no place for {name}.")
        found[theirs] = weight.detach()[None] if theirs == "final_logits_bias" else weight.detach()
    return found | family.tables(model, longest)


def in_transformers(config: ModelConfig, longest: int = 1024) -> Any:
    """A model of this size in their code, with weights of its own, for sentences of at most `longest` tokens."""
    try:
        transformers = import_module("transformers")
    except ImportError:
        raise InputError("Hugging Face's `transformers` is not installed.") from None
    family = family_of(config)
    options = family.write_config(config, longest)
    return transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(**options))


@torch.no_grad()
def as_transformers(model: Transformer, longest: int = 1024) -> Any:
    """The same model in their code."""
    family = family_of(model.config)
    theirs = in_transformers(model.config, longest)
    unexpected = theirs.load_state_dict(state_dict(model, family, longest), strict=False).unexpected_keys
    assert not unexpected, unexpected
    theirs.tie_weights()
    return theirs.eval()


def write_hugging_face(model: Transformer, tokenizer: AnyTokenizer | None, directory: Path, longest: int = 1024) -> str:
    """Their files into an existing directory: settings, weights, a tokenizer. Says which family it is now."""
    family = family_of(model.config)
    config = model.config
    options = family.write_config(config, longest)
    ids = {name: options[name] for name in TOKENS}
    generation = {**ids, "bad_words_ids": [[config.pad_id]], "num_beams": 4, "max_length": config.max_tokens or longest}
    for name, settings in (("config.json", options), ("generation_config.json", generation)):
        write_json(directory / name, settings)
    weights = state_dict(model, family, longest)
    write_weights(weights, directory / "model.safetensors", {"format": "pt"})
    if tokenizer is not None and not write_json_tokenizer(tokenizer, directory, options["model_type"]):
        family.write_tokenizer(tokenizer, directory)
    return family.TITLE
