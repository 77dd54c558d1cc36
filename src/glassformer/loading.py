"""Loading: a model or a translator from a built-in name, a run or model directory, another program's files, or the hub.

The only place that decides what a name or path is; every command and every function that takes a model uses it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.decoding import SearchSettings, Shortlist
from glassformer.engine import EngineOptions, open_engine
from glassformer.engine.factory import chosen_shortlist, on_chosen_device
from glassformer.engine.shortlist_file import read_shortlist
from glassformer.errors import InputError
from glassformer.model import HasWeights, ModelWeights, read_model
from glassformer.model_location import BUILT_IN, find_model, is_glassformer_model, tokenizer_of
from glassformer.translator import MAX_SOURCE_TOKENS, Translator, in_languages

Where = str | os.PathLike[str]


@dataclass(frozen=True)
class OpenedModel(HasWeights):
    """A model with its tokenizer, as opened from a name or path."""

    name: str
    """The last part of the path, or the built-in name."""
    weights: ModelWeights
    tokenizer: AnyTokenizer | None
    """None if the model takes token ids only."""
    directory: Path | None
    """The Glassformer model directory; None for another program's model."""
    read_shortlist: Callable[[], Shortlist | None] | None = None
    """Reads the model's shortlist; None if it has none."""

    @property
    def text_tokenizer(self) -> AnyTokenizer:
        """The tokenizer; an error if the model takes token ids only."""
        if self.tokenizer is None:
            raise InputError(f"{self.name} has no tokenizer: it takes token ids, not text.")
        return self.tokenizer

    def shortlist(self, options: EngineOptions) -> Shortlist | None:
        """The model's shortlist, unless it is not used with these options in any case."""
        is_measured = self.directory is not None  # another program's is not measured, so it is used only if requested
        is_possible = options.shortlist or (options.shortlist is None and is_measured)
        return self.read_shortlist() if self.read_shortlist is not None and is_possible else None

    @property
    def is_built_in(self) -> bool:
        """Whether the model is part of the package, so that nothing may be written beside it."""
        return self.directory is not None and self.directory == built_in_directory(self.name)


def built_in_directory(name: str) -> Path | None:
    """The directory of a built-in model; None for other names."""
    return find_model(name) if name in BUILT_IN and not Path(name).is_dir() else None


def open_model(
    where: Where,
    *,
    allow_pickle: bool = False,
    source_language: str | None = None,
    target_language: str | None = None,
) -> OpenedModel:
    """Open a model from a built-in name, a run or model directory, another program's files, or a name on the hub.

    Files of torch.save are opened only with `allow_pickle`; no code in them is run. The languages are for multilingual
    models and fairseq's dictionaries.
    """
    path = Path(where)
    name = path.name or str(where)
    if is_glassformer_model(where):
        directory = find_model(where)
        tokenizer = tokenizer_of(directory) if (directory / "tokenizer").is_dir() else None
        if tokenizer is not None:
            tokenizer = in_languages(tokenizer, source_language, target_language)
        weights = read_model(directory)
        sizes = (weights.config.source_vocab_size, weights.config.vocab_size)
        return OpenedModel(name, weights, tokenizer, directory, partial(read_shortlist, directory, *sizes))
    from glassformer.interop.format_detection import is_importable, open_imported  # imports much, so only when needed

    if not is_importable(path):
        find_model(where)  # says that there is nothing of that name
    imported = open_imported(
        path, allow_pickle=allow_pickle, source_language=source_language, target_language=target_language
    )
    return OpenedModel(name, imported.weights, imported.tokenizer, None, imported.read_shortlist)


def load(
    where: Where,
    *others: Where,
    search: SearchSettings | None = None,
    engine: EngineOptions | None = None,
    device: str | None = None,
    max_tokens: int = MAX_SOURCE_TOKENS,
    source_language: str | None = None,
    target_language: str | None = None,
    allow_pickle: bool = False,
) -> Translator:
    """Load a translator from a built-in name, a run or model directory, another program's files, or a name on the hub.

    Several models with the same tokenizer form an ensemble, which averages their probabilities. Without a tokenizer
    only the translator's `model` can be used, which takes ids; translating text is an error. `device`: in place of the
    engine options' ("cpu", "cuda", "mps" or "auto"); the translator's `model` is on it, too. Files of torch.save are
    opened only with `allow_pickle`; no code in them is run.
    """
    options = engine or EngineOptions()
    options = on_chosen_device(options if device is None else EngineOptions(**dict(options) | {"device": device}))
    opened = [
        open_model(each, allow_pickle=allow_pickle, source_language=source_language, target_language=target_language)
        for each in (where, *others)
    ]
    first = opened[0]
    for other, location in zip(opened[1:], others, strict=True):
        if not _same_tokenizer(first.tokenizer, other.tokenizer):
            raise InputError(f"{where} and {location} have different tokenizers: models of an ensemble must share one.")
    models = [each.weights.on(options.device) for each in opened]
    shortlist = chosen_shortlist(options, first.shortlist(options), len(models))
    translator = Translator(
        models[0],
        first.tokenizer or IdsOnly(),
        search,
        engine=open_engine(models, options, first.directory, shortlist),
        max_tokens=max_tokens,
    )
    translator.n_models = len(models)
    translator.directory = first.directory
    translator.uses_shortlist = shortlist is not None
    return translator


def _same_tokenizer(one: AnyTokenizer | None, other: AnyTokenizer | None) -> bool:
    return one is other is None or (one is not None and other is not None and one.files() == other.files())
