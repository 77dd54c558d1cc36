"""Checkpoints: `step-N/` in the run's directory, each a model directory plus everything needed to resume exactly.

Each is built under a temporary name and renamed once. A run resumes from the newest checkpoint that verifies; it is
searched for every time, and no file points to it. No random state is saved: the order of the data and dropout are pure
functions of the seed and of the position in the run.
"""

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator
from torch import Tensor

from glassformer.atomic_directory import BUILDING_PREFIX, building, replace_file, verify
from glassformer.data import Tokenizer
from glassformer.errors import DirectoryError, SettingsError
from glassformer.model.directory import read_weights, write_model, write_weights
from glassformer.model.transformer import Transformer
from glassformer.model_location import checkpoint_directories
from glassformer.settings import Settings

STATE, OPTIMISER, AVERAGE, METRICS = "state.json", "optimizer.safetensors", "average.safetensors", "metrics.jsonl"


class TrainingState(Settings):
    """State of a training run: position and counters; the training loop replaces it at every update."""

    update: int = 0
    """Number of completed updates."""
    epoch: int = 0
    position: int = 0
    """Number of completed batches of this epoch."""
    validations: list[int] = Field(default_factory=list)
    """Numbers of the updates at which there was a validation."""
    best: float | None = None
    best_update: int = 0
    stale: int = 0
    """Number of validations since the best one."""
    skipped: int = 0
    """Number of updates skipped because their gradient was not finite."""
    skipped_in_a_row: int = 0
    loss: float = 0.0
    """Sum of the training loss since the last line of metrics.jsonl."""
    tokens: int = 0
    """Number of target tokens that `loss` is summed over."""
    seconds: float = 0.0
    """Training time in seconds, including the time before the run was last resumed."""
    ended: str | None = None
    """Why the run ended; None until it has."""
    made_from: str = ""
    """Checksum of what the token store was built from."""
    dev_checksum: str = ""
    """Checksum of the dev set; empty in states of older versions."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The settings that may not change when the run resumes, by name; empty in states of older versions."""
    machine: dict[str, Any] = Field(default_factory=dict)
    """What the exact bits of the result depend on: torch version, ranks, threads, processor type."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, table: dict[str, Any]) -> dict[str, Any]:
        """Accept the state of older versions, which had only the last of `validations`."""
        last = table.get("validated")
        rest = {name: value for name, value in table.items() if name != "validated"}
        return {"validations": [last]} | rest if last else rest

    @property
    def is_validated(self) -> bool:
        """Whether there was a validation at the current update."""
        return self.update in self.validations[-1:]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a training run, whose files have been verified."""

    directory: Path
    state: TrainingState

    def tensors(self, file: str) -> dict[str, Tensor]:
        """The tensors of `WEIGHTS`, `OPTIMISER` or `AVERAGE`."""
        return read_weights(self.directory / file)


def save_checkpoint(
    run_directory: Path,
    state: TrainingState,
    model: Transformer,
    tokenizer: Tokenizer,
    optimiser: dict[str, Tensor],
    average: dict[str, Tensor] | None,
    metrics: bytes,
) -> Path:
    """Write the checkpoint `step-N`. An existing `step-N` is of the same update of the same run, and is kept."""
    target = run_directory / f"step-{state.update}"
    if target.exists():
        return target
    with building(target) as directory:
        write_model(model, directory)
        tokenizer.write(directory / "tokenizer")
        write_weights(optimiser, directory / OPTIMISER)
        if average is not None:
            write_weights(average, directory / AVERAGE)
        (directory / METRICS).write_bytes(metrics)
        (directory / STATE).write_text(state.as_json(), encoding="utf-8")
    return target


def newest_checkpoint(run_directory: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that verifies; damaged ones are reported through `warn` and renamed."""
    for directory in reversed(checkpoint_directories(run_directory, "step")):
        try:
            verify(directory)
            return Checkpoint(directory, TrainingState.read(directory / STATE))
        except (DirectoryError, SettingsError) as error:
            damaged = _unused_path(directory.with_name(f"damaged-{directory.name}"))
            directory.rename(damaged)
            warn(f"{error} It has been renamed to {damaged.name}; the run resumes from the checkpoint before it.")
    return None


def remove_older(run_directory: Path, keep: int, needed: set[int]) -> None:
    """Remove all checkpoints except the newest `keep` and those of the updates in `needed`."""
    for directory in checkpoint_directories(run_directory, "step")[:-keep]:
        if int(directory.name.removeprefix("step-")) not in needed:
            remove(directory)


def remove(directory: Path) -> None:
    """Delete a checkpoint after renaming it: a partly deleted one must never look complete. Undeletable files stay."""
    trash = directory.with_name(f"{BUILDING_PREFIX}gone-{directory.name}")
    with contextlib.suppress(OSError):
        shutil.rmtree(trash, ignore_errors=True)
        directory.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def remove_leftovers(run_directory: Path) -> None:
    """Delete what a killed process left partly built. Call only while holding the run's lock."""
    for path in run_directory.rglob(f"{BUILDING_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


def _unused_path(path: Path) -> Path:
    others = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([path], others) if not candidate.exists())


def write_json(path: Path, value: object) -> None:
    """Write a value as a JSON file, replacing the file atomically."""
    replace_file(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
