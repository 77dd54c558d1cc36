"""Preparation of a training run: checks, then builds the tokenizer and the token store, then writes `run.toml`.

Nothing is written before all checks have passed. A lock keeps a run's directory to one training process at a time.
"""

import hashlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.atomic_directory import BUILDING_PREFIX, building, replace_file, verify
from glassformer.data import Pair, ScannedCorpus, Tokenizer, TokenizerSettings, TokenStore, corpus, open_store
from glassformer.data.corpus import Watch, unwatched
from glassformer.data.dev_split import CorpusSample, read_samples
from glassformer.data.token_store import read_store
from glassformer.data.tokenizer import train_tokenizer
from glassformer.engine.devices import chosen_device
from glassformer.errors import DirectoryError, GlassformerError, SettingsError
from glassformer.loading import open_model
from glassformer.model import ModelConfig, Transformer, n_parameters, preset
from glassformer.model_location import checkpoint_directories
from glassformer.training.checkpoint import STATE, TrainingState, remove_leftovers
from glassformer.training.default_choices import choose_model, choose_tokenizer, choose_training
from glassformer.training.distributed import under_torchrun
from glassformer.training.run_corpora import Corpora, dev_sample, log_findings, read_dev, scan_corpora, write_dev
from glassformer.training.run_resources import check_memory
from glassformer.training.run_settings import RunSettings, TrainingSettings
from glassformer.training.stop_signals import interruptible

RUN, LOCK, TOKENIZER, DATA = "run.toml", ".lock", "tokenizer", "data"
LOCKED_BYTE = 2**30  # of the lock file, on Windows: beyond its text, which others may then read
MAX_TOKENIZER_PAIRS = 200_000  # that the tokenizer is trained on: more would only cost memory
CHANGEABLE_ON_RESUME = {
    "training.save_minutes", "training.keep", "training.updates", "training.ranks", "training.device",
    "validation.patience"
}  # fmt: skip

Log = Callable[[str], None]


class BaseModel(NamedTuple):
    """A model to fine-tune."""

    tokenizer: Tokenizer
    model: Transformer


@dataclass(frozen=True)
class Run:
    """A training run that is ready to start or to resume."""

    directory: Path
    settings: RunSettings
    tokenizer: Tokenizer
    store: TokenStore
    dev: list[Pair]
    """The sentence pairs of the dev set that are translated at each validation."""
    loaded: Transformer | None = None
    """The model to fine-tune, if it has already been loaded."""

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of every training pair, one column per side."""
        return np.stack((self.store.lengths("source"), self.store.lengths("target")), axis=1)

    @cached_property
    def dev_ids(self) -> list[tuple[list[int], list[int]]]:
        """Source and target ids of `dev`."""
        encode = self.tokenizer.encode
        return [(encode(pair.source, "source"), encode(pair.target, "target")) for pair in self.dev]

    @cached_property
    def dev_checksum(self) -> str:
        """Checksum of `dev`."""
        return hashlib.sha256(json.dumps([pair[1:] for pair in self.dev]).encode()).hexdigest()

    def new_model(self) -> Transformer:
        """The model before the first update: randomly initialised, or the one to fine-tune."""
        if self.settings.finetune is not None:
            return self.loaded or open_model(self.settings.finetune).model
        import torch

        torch.manual_seed(self.settings.seed)
        return Transformer(model_config(self.settings.model, self.tokenizer))

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
        saved = RunSettings.read(directory / RUN)
        _check_unedited(saved, directory)
        settings = _resumed_settings(requested, table, saved, directory, log)
        _check_device(settings.training)
        corpora = scan_corpora(settings, watch)
        with _locked(directory):
            remove_leftovers(directory)
            replace_file(directory / RUN, settings.as_toml().encode())  # the other ranks read them there
            yield _resumed_run(directory, settings, corpora)
        return
    _check_device(requested.training)
    corpora = scan_corpora(requested, watch)
    base = _checked_model(requested)
    check_directory(directory)
    with _locked(directory):
        remove_leftovers(directory)
        yield _new_run(directory, requested, corpora, base, log, watch)


def open_run(directory: Path) -> Run:
    """Open a run that another process has prepared, from its directory; the corpus is not read."""
    settings = RunSettings.read(directory / RUN)
    tokenizer = Tokenizer.read(directory / TOKENIZER)
    return Run(directory, settings, tokenizer, read_store(directory / DATA), read_dev(directory))


def model_config(options: dict[str, Any], tokenizer: Tokenizer) -> ModelConfig:
    """The config of a model for this tokenizer: a preset, overridden by the other options."""
    source, target = tokenizer.vocab_size("source"), tokenizer.vocab_size("target")
    defaults: dict[str, Any] = {"vocab_size": target, "source_vocab_size": source}
    if not tokenizer.settings.joint:
        defaults["share_embeddings"] = False
    overrides = {name: value for name, value in options.items() if name != "preset"}
    return preset(options["preset"], **defaults | overrides)


def fixed_settings(settings: RunSettings) -> dict[str, Any]:
    """The settings that may not change when a run resumes, by name."""
    fixed: dict[str, Any] = {}
    for section, value in settings.model_dump(mode="json", exclude={"out"}).items():
        options = {f"{section}.{name}": option for name, option in value.items()} if isinstance(value, dict) else None
        fixed |= {section: value} if options is None else options
    return {name: value for name, value in fixed.items() if name not in CHANGEABLE_ON_RESUME}


def _check_device(training: TrainingSettings) -> None:
    """Refuse a device that is not there, or that the processes of this machine cannot share."""
    chosen_device(training.device)
    if training.device not in ("auto", "cpu") and (training.ranks or 1) > 1 and not under_torchrun():
        raise SettingsError(
            f"training.ranks = {training.ranks} are processes on the CPU, and training.device is {training.device}: "
            "set training.ranks=1, or start one process per GPU with torchrun."
        )


def _check_unedited(settings: RunSettings, directory: Path) -> None:
    """Refuse a run.toml that differs from the settings of the newest readable checkpoint."""
    then: dict[str, Any] = {}
    for checkpoint in checkpoint_directories(directory, "step"):
        with suppress(GlassformerError):  # a damaged one is reported when it is needed
            then = TrainingState.read(checkpoint / STATE).settings
    now = fixed_settings(settings)
    options = {name: (then.get(name), now.get(name)) for name in {**then, **now}}
    listed = "; ".join(
        f"{name} was {old!r} and is now {new!r}"
        for name, (old, new) in options.items()
        if old != new and (name.startswith("model.") or {name} <= then.keys() & now.keys())  # else of another version
    )
    if then and listed:
        raise SettingsError(
            f"{directory / RUN} has been edited since the run was started: {listed}. Undo that to resume, or start a "
            "new run with another --out."
        )


def _resumed_run(directory: Path, settings: RunSettings, corpora: Corpora) -> Run:
    try:
        verify(directory / TOKENIZER)
    except DirectoryError as error:
        copies = checkpoint_directories(directory, "step") + checkpoint_directories(directory, "best")
        copy = f" Its files are also in {copies[-1] / TOKENIZER}." if copies else ""
        raise DirectoryError(f"{error}{copy}") from None
    tokenizer = Tokenizer.read(directory / TOKENIZER)
    store = open_store(corpora.train, tokenizer, directory / DATA, settings.data.max_tokens)
    dev = dev_sample(corpora.dev, settings)
    read_samples([dev])
    write_dev(dev.pairs, directory)
    return Run(directory, settings, tokenizer, store, dev.pairs)


def _new_run(
    directory: Path, settings: RunSettings, corpora: Corpora, base: BaseModel | None, log: Log, watch: Watch
) -> Run:
    pairs = corpora.train.usable
    log_findings(corpora.train, settings.data, log)
    for leftover in (directory / TOKENIZER, directory / DATA):
        if leftover.exists():
            shutil.rmtree(leftover)  # of an interrupted preparation
    dev = dev_sample(corpora.dev, settings)
    if base is None:
        tokenizer = _trained_tokenizer(settings, corpora.train, dev, log)
        model = choose_model(settings.model, pairs)
        config = model_config(model, tokenizer)
        check_memory(config)
    else:
        read_samples([dev])
        tokenizer, model, config = base.tokenizer, {}, base.model.config
    with building(directory / TOKENIZER) as temporary:
        tokenizer.write(temporary)
    store = open_store(corpora.train, tokenizer, directory / DATA, settings.data.max_tokens, watch)
    _log_skipped(store, settings, log)
    settings = settings.model_copy(update={"tokenizer": tokenizer.settings, "model": model})
    run = Run(directory, settings, tokenizer, store, dev.pairs, base and base.model)
    run = replace(run, settings=choose_training(settings, pairs, run.lengths, n_parameters(config)))
    replace_file(directory / RUN, run.settings.as_toml().encode())
    write_dev(dev.pairs, directory)
    return run


def _log_skipped(store: TokenStore, settings: RunSettings, log: Log) -> None:
    counts = store.settings
    if counts.dropped_long or counts.dropped_empty:
        pairs = "pair" if counts.dropped_empty == 1 else "pairs"
        log(
            f"Skipped {counts.dropped_empty:,} {pairs} with an empty side and {counts.dropped_long:,} longer than "
            f"{settings.data.max_tokens} tokens."
        )


def _trained_tokenizer(settings: RunSettings, train: ScannedCorpus, dev: CorpusSample, log: Log) -> Tokenizer:
    """A tokenizer trained on a sample of the training set; `dev` is read in the same pass, if from the same files."""
    chosen = settings.tokenizer or choose_tokenizer(train.usable)
    every = -(-train.usable // MAX_TOKENIZER_PAIRS)
    log(
        f"Training a {chosen.kind} tokenizer of up to {chosen.vocab_size:,} tokens on "
        f"{-(-train.usable // every):,} pairs."
    )
    sample = CorpusSample(train, every)
    read_samples([dev, sample])
    return interruptible(lambda: train_tokenizer(chosen, sample.pairs))


def _checked_model(settings: RunSettings) -> BaseModel | None:
    """The model to fine-tune, if there is one, after checking the settings of the model."""
    if settings.finetune is not None:
        if settings.model:
            option = next(iter(settings.model))
            flag = " (--preset)" if option == "preset" else ""
            raise SettingsError(
                f"Fine-tuning keeps the layers and sizes of {settings.finetune}: leave out model.{option}{flag}."
            )
        return _base_model(settings.finetune, settings.tokenizer)
    for name in ("vocab_size", "source_vocab_size", "pad_id", "bos_id", "eos_id"):
        if name in settings.model:
            way_out = "set tokenizer.vocab_size instead" if name.endswith("vocab_size") else "leave it out"
            raise SettingsError(f"model.{name} is determined by the tokenizer: {way_out}.")
    options = choose_model(settings.model, pairs=0)
    overrides = {name: value for name, value in options.items() if name != "preset"}
    joint = settings.tokenizer is None or settings.tokenizer.joint
    preset(options["preset"], **{"share_embeddings": joint, "source_vocab_size": 1000, "vocab_size": 1000} | overrides)
    return None


def _base_model(where: str, requested: TokenizerSettings | None) -> BaseModel:
    """A model to fine-tune, with its tokenizer: the only one that fits its embeddings."""
    opened = open_model(where)
    tokenizer = opened.text_tokenizer
    if not isinstance(tokenizer, Tokenizer):
        raise SettingsError(
            f"{where} has another program's tokenizer. Glassformer can run and inspect such a model, but not "
            "fine-tune it: choose a model that Glassformer trained."
        )
    model = opened.model
    sizes = (tokenizer.vocab_size("source"), tokenizer.vocab_size("target"))
    if sizes != (model.config.source_vocab_size, model.config.vocab_size):
        raise DirectoryError(
            f"The tokenizer in {where} has {sizes[0]:,} source and {sizes[1]:,} target tokens, but its model "
            f"has {model.config.source_vocab_size:,} and {model.config.vocab_size:,}. Use another copy of the model."
        )
    if requested is not None and requested != tokenizer.settings:
        pairs = {name: (value, getattr(tokenizer.settings, name)) for name, value in requested}
        differing = ", ".join(f"{name} {new!r} instead of {old!r}" for name, (new, old) in pairs.items() if new != old)
        raise SettingsError(
            f"The tokenizer of {where} differs from the requested one ({differing}). A model can only be "
            "fine-tuned with its own tokenizer: leave out [tokenizer], or train a new model."
        )
    return BaseModel(tokenizer, model)


def check_directory(directory: Path) -> None:
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


def _resumed_settings(
    requested: RunSettings, table: dict[str, Any], saved: RunSettings, directory: Path, log: Log
) -> RunSettings:
    """The saved settings of a run to be resumed, with the requested changes among those that may change."""
    then, now = saved.model_dump(), requested.model_dump()
    changed = {}
    for section, options in table.items():
        for name in [f"{section}.{option}" for option in options] if isinstance(options, dict) else [section]:
            values = _lookup(then, name), _lookup(now, name)
            if values[0] != values[1] and name not in ("training.epochs", "out"):
                changed[name] = values
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


def _lock(file: IO[str]) -> None:
    """Lock a file until it is closed; raises a `BlockingIOError`, on Windows a `PermissionError`, if it is locked."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file.fileno(), LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
            _lock(file)
        except (BlockingIOError, PermissionError):
            file.seek(0)
            raise DirectoryError(
                f"{directory} is being trained by another process ({file.read().strip()}): wait for it to "
                "end, or choose another --out."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
