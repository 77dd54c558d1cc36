"""Loading: a model or a translator from a built-in name, a run or model directory, another program's files, or the hub.

The only place that decides what a name or path is; every command and every function that takes a model uses it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.decoding import Beam, SearchSettings, Shortlist
from glassformer.decoding.search_choice import SearchOptions, changed_search
from glassformer.engine import EngineOptions, open_engine
from glassformer.engine.engine_options import EngineKind, Precision
from glassformer.engine.factory import chosen_shortlist, on_chosen_device
from glassformer.engine.shortlist_file import read_shortlist
from glassformer.errors import InputError
from glassformer.model import HasWeights, ModelWeights, read_model
from glassformer.model_location import BUILT_IN, find_model, is_glassformer_model, tokenizer_of
from glassformer.translator import MAX_SOURCE_TOKENS, Translator, in_languages

Where = str | os.PathLike[str]
ARGUMENTS_OF_LOAD = ("search", "max_tokens", "source_language", "target_language", "allow_pickle")


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
    if not isinstance(where, str | os.PathLike):
        raise InputError(f"A model is opened by its name or path, which should be text; it is {where!r}.")
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


class LoadOptions(SearchOptions, total=False):
    """Options of the engine and of the search, as `load` takes them by name."""

    precision: Precision
    workers: int | None
    sentences: int | None
    positions: int
    exact: bool
    shortlist: bool | None


@dataclass(frozen=True)
class Opening:
    """What a translator was opened from, and how: enough to open the same in another process."""

    models: tuple[str, ...]
    """The absolute paths of the models; names of built-in models and of models on the hub as they are."""
    engine: EngineOptions
    max_tokens: int
    source_language: str | None
    target_language: str | None
    allow_pickle: bool

    def __call__(self) -> Translator:
        options = {name: value for name, value in vars(self).items() if name != "models"}
        return load(*self.models, **options)


def load(
    where: Where,
    *others: Where,
    search: SearchSettings | None = None,
    engine: EngineOptions | EngineKind | None = None,
    device: str | None = None,
    max_tokens: int = MAX_SOURCE_TOKENS,
    source_language: str | None = None,
    target_language: str | None = None,
    allow_pickle: bool = False,
    **options: Unpack[LoadOptions],
) -> Translator:
    """Load a translator from a built-in name, a run or model directory, another program's files, or a name on the hub.

    >>> translator = gf.load("street", precision="int8", beam=2)
    >>> translator("The animal didn't cross the street because it was too tired.")
    'Das Tier überquerte die Straße nicht, weil es zu müde war.'

    `engine`: "fast", "plain" or "ctranslate2", or `EngineOptions`. `options`: any option of the engine (`precision`,
    `workers`, `sentences`, `positions`, `exact`, `shortlist`) and of the search (`beam`, `sample`, `n_best`);
    those of the search can also be given to each call of `translate`.

    Several models with the same tokenizer form an ensemble, which averages their probabilities. Without a tokenizer
    only the translator's `model` can be used, which takes ids; translating text is an error. `device`: in place of the
    engine options' ("cpu", "cuda", "mps" or "auto"); the translator's `model` is on it, too. Files of torch.save are
    opened only with `allow_pickle`; no code in them is run.
    """
    engine_options, search = _chosen(engine, device, search, options)
    opened = [
        open_model(each, allow_pickle=allow_pickle, source_language=source_language, target_language=target_language)
        for each in (where, *others)
    ]
    first = opened[0]
    for other, location in zip(opened[1:], others, strict=True):
        if not _same_tokenizer(first.tokenizer, other.tokenizer):
            raise InputError(f"{where} and {location} have different tokenizers: models of an ensemble must share one.")
    models = [each.weights.on(engine_options.device) for each in opened]
    shortlist = chosen_shortlist(engine_options, first.shortlist(engine_options), len(models))
    translator = Translator(
        models[0],
        first.tokenizer or IdsOnly(),
        search,
        engine=open_engine(models, engine_options, first.directory, shortlist),
        max_tokens=max_tokens,
    )
    translator.name = " + ".join(each.name for each in opened)
    translator.n_models = len(models)
    translator.directory = first.directory
    translator.uses_shortlist = shortlist is not None
    places = tuple(_place(location, each.directory) for location, each in zip((where, *others), opened, strict=True))
    translator.reopen = Opening(places, engine_options, max_tokens, source_language, target_language, allow_pickle)
    return translator


def as_translator(model: Translator | Where) -> Translator:
    """A translator: the one given, or the one that `load` opens from a name or path."""
    return model if isinstance(model, Translator) else load(model)


def _chosen(
    engine: EngineOptions | EngineKind | None, device: str | None, search: SearchSettings | None, options: LoadOptions
) -> tuple[EngineOptions, SearchSettings]:
    """The options of engine and search, with those given by name in place of the others."""
    given = dict(engine) if isinstance(engine, EngineOptions) else {} if engine is None else {"engine": engine}
    names = EngineOptions.model_fields
    given |= {name: value for name, value in options.items() if name in names}
    given |= {} if device is None else {"device": device}
    searching = {name: value for name, value in options.items() if name not in names}
    others = [*names, *ARGUMENTS_OF_LOAD]
    return on_chosen_device(EngineOptions(**given)), changed_search(search or Beam(), searching, others)


def _place(where: Where, directory: Path | None) -> str:
    """Where a process with another working directory finds the same model: of a run, the model that was opened."""
    if directory is not None and str(where) not in BUILT_IN:
        return str(directory.absolute())
    return os.path.abspath(where) if os.path.exists(where) else os.fspath(where)


def _same_tokenizer(one: AnyTokenizer | None, other: AnyTokenizer | None) -> bool:
    return one is other is None or (one is not None and other is not None and one.files() == other.files())
