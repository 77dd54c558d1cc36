"""A run before its first update: everything checked, then the tokenizer and the store made, then `run.toml` written.

Nothing is written before all checks have passed. A run's directory belongs to one trainer at a time.
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

from glassformer.atomic_directory import ASIDE, building, replace_file
from glassformer.data import Corpus, Pair, Tokenizer, TokenStore, corpus, open_store, train_tokenizer
from glassformer.data.corpus import Watch, unwatched
from glassformer.data.dev_split import DevSplit
from glassformer.errors import DataError, DirectoryError, SettingsError
from glassformer.model import ModelConfig, Transformer, load_model, n_parameters, preset
from glassformer.model_location import find_model, tokenizer_of
from glassformer.training.checkpoint import sweep
from glassformer.training.default_choices import choose_model, choose_tokenizer, choose_training
from glassformer.training.run_settings import RunSettings

RUN, LOCK, TOKENIZER, DATA = "run.toml", ".lock", "tokenizer", "data"
SAMPLE = 200_000  # pairs that the tokenizer is trained on, at most: more would only cost memory
MAY_CHANGE = {"training.save_minutes", "training.keep", "training.updates", "training.ranks", "validation.patience"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A run that is ready to begin, or to go on."""

    directory: Path
    settings: RunSettings
    tokenizer: Tokenizer
    store: TokenStore
    dev: list[Pair]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every pair, a column a side."""
        return np.stack((self.store.lengths("source"), self.store.lengths("target")), axis=1)

    @cached_property
    def config(self) -> ModelConfig:
        if self.settings.finetune is not None:
            return load_model(find_model(self.settings.finetune)).config
        return model_config(self.settings.model, self.tokenizer)

    def new_model(self) -> Transformer:
        """The model before the first update: random, or what the run starts from."""
        if self.settings.finetune is not None:
            return load_model(find_model(self.settings.finetune))
        import torch

        torch.manual_seed(self.settings.seed)
        return Transformer(self.config)

    def test(self) -> list[Pair]:
        """The test set, which is read when all is done."""
        data = self.settings.data
        return [] if data.test_source is None else list(corpus(data.test_source, data.test_target))


@contextmanager
def begin(table: dict[str, Any], say: Say, watch: Watch = unwatched) -> Iterator[Run]:
    """The run that these options ask for, new or as it was left; ours alone while the block lasts."""
    asked = RunSettings(**table)
    directory = Path(asked.out)
    if (directory / RUN).exists():
        settings = _agreed(asked, table, RunSettings.read(directory / RUN), directory, say)
        _check_data(settings)
        with _locked(directory):
            sweep(directory)
            replace_file(directory / RUN, settings.as_toml().encode())  # for the other ranks, who read what was agreed
            yield open_run(directory)
        return
    pairs = _check_data(asked)
    _check_model(asked)
    _check_place(directory)
    with _locked(directory):
        sweep(directory)
        yield _new_run(directory, asked, pairs, say, watch)


def open_run(directory: Path) -> Run:
    """A run that has begun, as its directory has it."""
    settings = RunSettings.read(directory / RUN)
    tokenizer = Tokenizer.read(directory / TOKENIZER)
    train, dev = _corpora(settings)
    store = open_store(train, tokenizer, directory / DATA, settings.data.max_tokens)
    return Run(directory, settings, tokenizer, store, _dev_pairs(dev, settings))


def model_config(options: dict[str, Any], tokenizer: Tokenizer) -> ModelConfig:
    """The config of a model for this tokenizer: a preset's, with the options that differ."""
    source, target = tokenizer.vocab_size("source"), tokenizer.vocab_size("target")
    ours: dict[str, Any] = {"vocab_size": target, "source_vocab_size": source}
    if not tokenizer.settings.joint:
        ours["share_embeddings"] = False
    changes = {name: value for name, value in options.items() if name != "preset"}
    return preset(options["preset"], **ours | changes)


def _new_run(directory: Path, settings: RunSettings, pairs: int, say: Say, watch: Watch) -> Run:
    train, dev = _corpora(settings)
    for leftover in (directory / TOKENIZER, directory / DATA):
        if leftover.exists():
            shutil.rmtree(leftover)  # of a preparation that was cut short
    tokenizer = _tokenizer(settings, train, pairs, say)
    with building(directory / TOKENIZER) as aside:
        tokenizer.write(aside)
    store = open_store(train, tokenizer, directory / DATA, settings.data.max_tokens, watch)
    kept = store.settings
    if kept.dropped_long or kept.dropped_empty:
        say(
            f"{kept.dropped_empty:,} pairs with an empty side and {kept.dropped_long:,} longer than "
            f"{settings.data.max_tokens} tokens are left out."
        )
    model = {} if settings.finetune else choose_model(settings.model, pairs)
    settings = settings.model_copy(update={"tokenizer": tokenizer.settings, "model": model})
    run = Run(directory, settings, tokenizer, store, _dev_pairs(dev, settings))
    run = replace(run, settings=choose_training(settings, pairs, run.lengths, n_parameters(run.config)))
    replace_file(directory / RUN, run.settings.as_toml().encode())
    return run


def _tokenizer(settings: RunSettings, train: Corpus, pairs: int, say: Say) -> Tokenizer:
    if settings.finetune is not None:
        return _tokenizer_of(settings)
    chosen = settings.tokenizer or choose_tokenizer(pairs)
    every = -(-pairs // SAMPLE)
    say(f"Training a {chosen.kind} tokenizer of up to {chosen.vocab_size:,} tokens on {-(-pairs // every):,} pairs.")
    return train_tokenizer(chosen, lambda: islice(train, 0, None, every))


def _tokenizer_of(settings: RunSettings) -> Tokenizer:
    """The vocabulary of the model that a run starts from: the only one its embeddings know."""
    where = find_model(str(settings.finetune))
    tokenizer = tokenizer_of(where)
    if not isinstance(tokenizer, Tokenizer):
        raise SettingsError(
            f"{where} came with another program's tokenizer: such a model can be run and looked into, but not trained "
            "further here."
        )
    config = load_model(where).config
    sizes = (tokenizer.vocab_size("source"), tokenizer.vocab_size("target"))
    if sizes != (config.source_vocab_size, config.vocab_size):
        raise DirectoryError(
            f"The tokenizer in {where} knows {sizes[0]:,} source and {sizes[1]:,} target tokens, and its model "
            f"{config.source_vocab_size:,} and {config.vocab_size:,}: they do not belong together."
        )
    if settings.tokenizer is not None and settings.tokenizer != tokenizer.settings:
        differing = _differences(settings.tokenizer.model_dump(), tokenizer.settings.model_dump())
        raise SettingsError(
            f"The vocabulary of {where} differs from the one asked for ({differing}). A model can only be trained on "
            "with its own: leave [tokenizer] out, or train a new model."
        )
    return tokenizer


def _check_data(settings: RunSettings) -> int:
    """Every file readable to its last line, and both sides of one length; the number of usable pairs for training."""
    data = settings.data
    train, dev = _corpora(settings)
    for part in (train, dev, *([corpus(data.test_source, data.test_target)] if data.test_source else [])):
        part.check()
        usable = sum(pair.has_text for pair in part)
        if usable == 0:
            raise DataError(f"{part} has no pair with text on both sides: there is nothing to work with.")
        if part is train:
            pairs = usable
    return pairs


def _check_model(settings: RunSettings) -> None:
    if settings.finetune is not None:
        if settings.model:
            raise SettingsError(
                f"The model's shape comes from {settings.finetune}: leave out model.{next(iter(settings.model))}."
            )
        _tokenizer_of(settings)
        return
    for name in ("vocab_size", "source_vocab_size", "pad_id", "bos_id", "eos_id"):
        if name in settings.model:
            raise SettingsError(f"model.{name} follows from the tokenizer; set tokenizer.vocab_size instead.")
    options = choose_model(settings.model, pairs=0)
    changes = {name: value for name, value in options.items() if name != "preset"}
    joint = settings.tokenizer is None or settings.tokenizer.joint
    preset(options["preset"], **{"share_embeddings": joint, "source_vocab_size": 1000, "vocab_size": 1000} | changes)


def _check_place(directory: Path) -> None:
    """A new run takes an empty place, or one where a preparation of ours was cut short."""
    if directory.is_dir():
        strangers = {p.name for p in directory.iterdir() if not p.name.startswith(ASIDE)} - {LOCK, TOKENIZER, DATA}
        strangers -= {f".{RUN}"}
        if strangers:
            raise DirectoryError(
                f"{directory} holds other things ({', '.join(sorted(strangers)[:3])}) and no {RUN}: choose an empty or "
                "new directory for the run."
            )
    elif os.path.lexists(directory):
        raise DirectoryError(f"{directory} is not a directory: choose another place for the run.")


def _corpora(settings: RunSettings) -> tuple[Corpus, Corpus]:
    """What is learned from, and what is watched."""
    data = settings.data
    train = corpus(data.source, data.target)
    if data.dev_source is not None:
        return train, corpus(data.dev_source, data.dev_target)
    # A twentieth, and no more than is translated each time; of a very small corpus more, or there would be none.
    for one_in in (max(20, train.check() // settings.validation.sentences), 5, 2):
        held = DevSplit(train, one_in)
        if any(pair.has_text for pair in held) and any(pair.has_text for pair in held.others):
            return held.others, held
    raise DataError(
        f"{train}: too few pairs have text on both sides to split a dev set off. Give one with --dev-source and "
        "--dev-target, or more text."
    )


def _dev_pairs(dev: Corpus, settings: RunSettings) -> list[Pair]:
    pairs = [pair for pair in dev if pair.has_text]
    step = max(1, len(pairs) // settings.validation.sentences)
    return pairs[::step][: settings.validation.sentences]


def _agreed(asked: RunSettings, table: dict[str, Any], begun: RunSettings, directory: Path, say: Say) -> RunSettings:
    """The settings of a run that has begun: those it began with, unless something asked for now may still change."""
    then = begun.model_dump()
    now = asked.model_dump()
    changed = {}
    for section, options in table.items():
        names = [f"{section}.{name}" for name in options] if isinstance(options, dict) else [section]
        for name in names:
            if _at(now, name) != _at(then, name) and name not in ("training.epochs", "out"):
                changed[name] = (_at(then, name), _at(now, name))
    refused = {name: values for name, values in changed.items() if name not in MAY_CHANGE}
    if refused:
        listed = "; ".join(f"{name} was {old!r} and is now {new!r}" for name, (old, new) in refused.items())
        raise SettingsError(
            f"{directory} was begun with other settings: {listed}. Ask for the same to go on, or for another --out to "
            "begin anew."
        )
    for name, (old, new) in changed.items():
        say(f"{name} was {old!r} and is now {new!r}.")
        section, option = name.split(".")
        then[section][option] = new
    return RunSettings(**then) if changed else begun


def _at(table: dict[str, Any], name: str) -> Any:
    for part in name.split("."):
        table = table.get(part) if isinstance(table, dict) else None  # type: ignore[assignment]
    return table


def _differences(asked: dict[str, Any], found: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {asked[name]!r} instead of {found[name]!r}" for name in asked if asked[name] != found[name]
    )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """The run's directory for ourselves; the system frees it whatever becomes of us."""
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
                f"{directory} is being trained by another process ({file.read().strip()}): wait for it, or choose "
                "another --out."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
