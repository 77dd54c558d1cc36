"""Preparation of a training run: checks, then builds the tokenizer and the token store, then writes `run.toml`.

Nothing is written before all checks have passed. A lock keeps a run's directory to one training process at a time.
"""

import fcntl
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.atomic_directory import BUILDING_PREFIX, building, replace_file
from glassformer.data import Corpus, Pair, Tokenizer, TokenStore, corpus, open_store, train_tokenizer
from glassformer.data.corpus import Watch, unwatched
from glassformer.data.dev_split import DevSplit
from glassformer.errors import DataError, DirectoryError, SettingsError
from glassformer.model import ModelConfig, Transformer, load_model, n_parameters, preset
from glassformer.model_location import find_model, tokenizer_of
from glassformer.training.checkpoint import remove_leftovers
from glassformer.training.default_choices import choose_model, choose_tokenizer, choose_training
from glassformer.training.run_settings import RunSettings

RUN, LOCK, TOKENIZER, DATA = "run.toml", ".lock", "tokenizer", "data"
MAX_TOKENIZER_PAIRS = 200_000  # that the tokenizer is trained on: more would only cost memory
CHANGEABLE_ON_RESUME = {
    "training.save_minutes", "training.keep", "training.updates", "training.ranks", "validation.patience"
}  # fmt: skip

Log = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A training run that is ready to start or to resume."""

    directory: Path
    settings: RunSettings
    tokenizer: Tokenizer
    store: TokenStore
    dev: list[Pair]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of every training pair, one column per side."""
        return np.stack((self.store.lengths("source"), self.store.lengths("target")), axis=1)

    @cached_property
    def config(self) -> ModelConfig:
        if self.settings.finetune is not None:
            return load_model(find_model(self.settings.finetune)).config
        return model_config(self.settings.model, self.tokenizer)

    def new_model(self) -> Transformer:
        """The model before the first update: randomly initialised, or the one to fine-tune."""
        if self.settings.finetune is not None:
            return load_model(find_model(self.settings.finetune))
        import torch

        torch.manual_seed(self.settings.seed)
        return Transformer(self.config)

    def test(self) -> list[Pair]:
        """The sentence pairs of the test set, read only after training."""
        data = self.settings.data
        return [] if data.test_source is None else list(corpus(data.test_source, data.test_target))


@contextmanager
def prepare_run(table: dict[str, Any], log: Log, watch: Watch = unwatched) -> Iterator[Run]:
    """Prepare the run described by `table`, new or to be resumed; its directory is locked inside the block."""
    requested = RunSettings(**table)
    directory = Path(requested.out)
    if (directory / RUN).exists():
        settings = _resumed_settings(requested, table, RunSettings.read(directory / RUN), directory, log)
        _check_data(settings)
        with _locked(directory):
            remove_leftovers(directory)
            replace_file(directory / RUN, settings.as_toml().encode())  # the other ranks read them there
            yield open_run(directory)
        return
    pairs = _check_data(requested)
    _check_model(requested)
    _check_directory(directory)
    with _locked(directory):
        remove_leftovers(directory)
        yield _new_run(directory, requested, pairs, log, watch)


def open_run(directory: Path) -> Run:
    """Open a run that has been prepared, from its directory."""
    settings = RunSettings.read(directory / RUN)
    tokenizer = Tokenizer.read(directory / TOKENIZER)
    train, dev = _corpora(settings)
    store = open_store(train, tokenizer, directory / DATA, settings.data.max_tokens)
    return Run(directory, settings, tokenizer, store, _dev_pairs(dev, settings))


def model_config(options: dict[str, Any], tokenizer: Tokenizer) -> ModelConfig:
    """The config of a model for this tokenizer: a preset, overridden by the other options."""
    source, target = tokenizer.vocab_size("source"), tokenizer.vocab_size("target")
    defaults: dict[str, Any] = {"vocab_size": target, "source_vocab_size": source}
    if not tokenizer.settings.joint:
        defaults["share_embeddings"] = False
    overrides = {name: value for name, value in options.items() if name != "preset"}
    return preset(options["preset"], **defaults | overrides)


def _new_run(directory: Path, settings: RunSettings, pairs: int, log: Log, watch: Watch) -> Run:
    train, dev = _corpora(settings)
    for leftover in (directory / TOKENIZER, directory / DATA):
        if leftover.exists():
            shutil.rmtree(leftover)  # of an interrupted preparation
    tokenizer = _tokenizer(settings, train, pairs, log)
    with building(directory / TOKENIZER) as temporary:
        tokenizer.write(temporary)
    store = open_store(train, tokenizer, directory / DATA, settings.data.max_tokens, watch)
    counts = store.settings
    if counts.dropped_long or counts.dropped_empty:
        log(
            f"Skipped {counts.dropped_empty:,} pairs with an empty side and {counts.dropped_long:,} longer than "
            f"{settings.data.max_tokens} tokens."
        )
    model = {} if settings.finetune else choose_model(settings.model, pairs)
    settings = settings.model_copy(update={"tokenizer": tokenizer.settings, "model": model})
    run = Run(directory, settings, tokenizer, store, _dev_pairs(dev, settings))
    run = replace(run, settings=choose_training(settings, pairs, run.lengths, n_parameters(run.config)))
    replace_file(directory / RUN, run.settings.as_toml().encode())
    return run


def _tokenizer(settings: RunSettings, train: Corpus, pairs: int, log: Log) -> Tokenizer:
    if settings.finetune is not None:
        return _finetuned_tokenizer(settings)
    chosen = settings.tokenizer or choose_tokenizer(pairs)
    every = -(-pairs // MAX_TOKENIZER_PAIRS)
    log(f"Training a {chosen.kind} tokenizer of up to {chosen.vocab_size:,} tokens on {-(-pairs // every):,} pairs.")
    return train_tokenizer(chosen, lambda: islice(train, 0, None, every))


def _finetuned_tokenizer(settings: RunSettings) -> Tokenizer:
    """The tokenizer of the model to fine-tune: the only one that fits its embeddings."""
    model_directory = find_model(str(settings.finetune))
    tokenizer = tokenizer_of(model_directory)
    if not isinstance(tokenizer, Tokenizer):
        raise SettingsError(
            f"{model_directory} has another program's tokenizer. Glassformer can run and inspect such a model, but not "
            "fine-tune it: choose a model that Glassformer trained."
        )
    config = load_model(model_directory).config
    sizes = (tokenizer.vocab_size("source"), tokenizer.vocab_size("target"))
    if sizes != (config.source_vocab_size, config.vocab_size):
        raise DirectoryError(
            f"The tokenizer in {model_directory} has {sizes[0]:,} source and {sizes[1]:,} target tokens, but its model "
            f"has {config.source_vocab_size:,} and {config.vocab_size:,}. Use another copy of the model."
        )
    if settings.tokenizer is not None and settings.tokenizer != tokenizer.settings:
        differing = _differences(settings.tokenizer.model_dump(), tokenizer.settings.model_dump())
        raise SettingsError(
            f"The tokenizer of {model_directory} differs from the requested one ({differing}). A model can only be "
            "fine-tuned with its own tokenizer: leave out [tokenizer], or train a new model."
        )
    return tokenizer


def _check_data(settings: RunSettings) -> int:
    """Check that files are readable and both sides equally long; returns the number of usable training pairs."""
    data = settings.data
    train, dev = _corpora(settings)
    for part in (train, dev, *([corpus(data.test_source, data.test_target)] if data.test_source else [])):
        part.check()
        usable = sum(pair.has_text for pair in part)
        if usable == 0:
            raise DataError(f"{part} has no pair with text on both sides: check the files.")
        if part is train:
            pairs = usable
    return pairs


def _check_model(settings: RunSettings) -> None:
    if settings.finetune is not None:
        if settings.model:
            option = next(iter(settings.model))
            flag = " (--preset)" if option == "preset" else ""
            raise SettingsError(
                f"Fine-tuning keeps the layers and sizes of {settings.finetune}: leave out model.{option}{flag}."
            )
        _finetuned_tokenizer(settings)
        return
    for name in ("vocab_size", "source_vocab_size", "pad_id", "bos_id", "eos_id"):
        if name in settings.model:
            way_out = "set tokenizer.vocab_size instead" if name.endswith("vocab_size") else "leave it out"
            raise SettingsError(f"model.{name} is determined by the tokenizer: {way_out}.")
    options = choose_model(settings.model, pairs=0)
    overrides = {name: value for name, value in options.items() if name != "preset"}
    joint = settings.tokenizer is None or settings.tokenizer.joint
    preset(options["preset"], **{"share_embeddings": joint, "source_vocab_size": 1000, "vocab_size": 1000} | overrides)


def _check_directory(directory: Path) -> None:
    """Check that a new run's directory is absent, empty, or left by an interrupted preparation."""
    if directory.is_dir():
        names = {path.name for path in directory.iterdir() if not path.name.startswith(BUILDING_PREFIX)}
        unknown = names - {LOCK, TOKENIZER, DATA, f".{RUN}"}
        if unknown:
            raise DirectoryError(
                f"{directory} contains other files ({', '.join(sorted(unknown)[:3])}) and no {RUN}: choose an empty or "
                "new directory for the run."
            )
    elif os.path.lexists(directory):
        raise DirectoryError(f"{directory} is not a directory: choose another --out.")


def _corpora(settings: RunSettings) -> tuple[Corpus, Corpus]:
    """The corpora of the training set and of the dev set."""
    data = settings.data
    train = corpus(data.source, data.target)
    if data.dev_source is not None:
        return train, corpus(data.dev_source, data.dev_target)
    # A twentieth, but no more than is translated at each validation; more of a very small corpus, or it would be empty.
    for one_in in (max(20, train.check() // settings.validation.sentences), 5, 2):
        dev = DevSplit(train, one_in)
        if any(pair.has_text for pair in dev) and any(pair.has_text for pair in dev.complement):
            return dev.complement, dev
    raise DataError(
        f"{train}: too few pairs have text on both sides to split off a dev set. Give one with --dev-source and "
        "--dev-target, or add more text."
    )


def _dev_pairs(dev: Corpus, settings: RunSettings) -> list[Pair]:
    pairs = [pair for pair in dev if pair.has_text]
    step = max(1, len(pairs) // settings.validation.sentences)
    return pairs[::step][: settings.validation.sentences]


def _resumed_settings(
    requested: RunSettings, table: dict[str, Any], saved: RunSettings, directory: Path, log: Log
) -> RunSettings:
    """The saved settings of a run to be resumed, with the requested changes among those that may change."""
    then = saved.model_dump()
    now = requested.model_dump()
    changed = {}
    for section, options in table.items():
        names = [f"{section}.{name}" for name in options] if isinstance(options, dict) else [section]
        for name in names:
            if _lookup(now, name) != _lookup(then, name) and name not in ("training.epochs", "out"):
                changed[name] = (_lookup(then, name), _lookup(now, name))
    refused = {name: values for name, values in changed.items() if name not in CHANGEABLE_ON_RESUME}
    if refused:
        listed = "; ".join(f"{name} was {old!r} and is now {new!r}" for name, (old, new) in refused.items())
        raise SettingsError(
            f"{directory} was started with other settings: {listed}. Use the same settings to resume, or another --out "
            "to start a new run."
        )
    for name, (old, new) in changed.items():
        log(f"{name} was {old!r} and is now {new!r}.")
        section, option = name.split(".")
        then[section][option] = new
    return RunSettings(**then) if changed else saved


def _lookup(table: dict[str, Any], name: str) -> Any:
    for part in name.split("."):
        table = table.get(part) if isinstance(table, dict) else None  # type: ignore[assignment]
    return table


def _differences(requested: dict[str, Any], actual: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {requested[name]!r} instead of {actual[name]!r}"
        for name in requested
        if requested[name] != actual[name]
    )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold an exclusive lock on the run's directory; the system releases it however the process ends."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / LOCK).open("a+")
    except OSError as error:
        raise DirectoryError(f"{directory} cannot be written: {error.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise DirectoryError(
                f"{directory} is being trained by another process ({file.read().strip()}): wait for it to "
                "end, or choose another --out."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
