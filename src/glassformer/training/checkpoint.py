"""Checkpoints: `step-N/` in the run's directory, each a model directory with what is needed to go on exactly.

Saved aside and renamed once. The newest that verifies is the one to go on from: computed each time, never pointed to.
No random state is kept: order and dropout are pure functions of the seed and of where one is.
"""

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import Tensor

from glassformer.atomic_directory import ASIDE, building, replace_file, verify
from glassformer.data import Tokenizer
from glassformer.errors import DirectoryError, SettingsError
from glassformer.model.directory import WEIGHTS, read_weights, write_model, write_weights
from glassformer.model.transformer import Transformer
from glassformer.model_location import numbered
from glassformer.settings import Settings

STATE, OPTIMISER, AVERAGE, METRICS = "state.json", "optimizer.safetensors", "average.safetensors", "metrics.jsonl"


class State(Settings):
    """Where a run is; the loop replaces it at every update."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    position: int = 0
    """Batches of this epoch that are done."""
    validated: int = 0
    """The last update that was validated."""
    best: float | None = None
    best_update: int = 0
    stale: int = 0
    """Validations since the best."""
    skipped: int = 0
    """Updates left out because their gradient was not finite."""
    skipped_in_a_row: int = 0
    loss: float = 0.0
    """Summed since the last line of metrics."""
    tokens: int = 0
    """The target tokens that belong to it."""
    seconds: float = 0.0
    """Spent in training, over all its beginnings."""
    ended: str | None = None
    """Why the run is over, once it is."""
    made_from: str = ""
    """The checksum of the corpus' store."""
    machine: dict[str, Any] = Field(default_factory=dict)
    """What the bits depend on: torch, ranks, threads, kind of processor."""


@dataclass(frozen=True)
class Checkpoint:
    """One that was found whole."""

    directory: Path
    state: State

    def weights(self) -> dict[str, Tensor]:
        return read_weights(self.directory / WEIGHTS)

    def optimiser(self) -> dict[str, Tensor]:
        return read_weights(self.directory / OPTIMISER)

    def average(self) -> dict[str, Tensor]:
        return read_weights(self.directory / AVERAGE)

    def metrics(self) -> bytes:
        return (self.directory / METRICS).read_bytes()


def save_checkpoint(
    run: Path,
    state: State,
    model: Transformer,
    tokenizer: Tokenizer,
    optimiser: dict[str, Tensor],
    average: dict[str, Tensor] | None,
    metrics: bytes,
) -> Path:
    """Write `step-N`; if it is already there, it is of the same update of the same run, and stays."""
    target = run / f"step-{state.update}"
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


def newest_checkpoint(run: Path, complain: Callable[[str], None]) -> Checkpoint | None:
    """The newest that is whole; what is not is said aloud, and set aside under another name."""
    for directory in reversed(numbered(run, "step")):
        try:
            verify(directory)
            return Checkpoint(directory, State.read(directory / STATE))
        except (DirectoryError, SettingsError) as error:
            damaged = _unused(directory.with_name(f"damaged-{directory.name}"))
            directory.rename(damaged)
            complain(f"{error} It is now called {damaged.name}; the run goes on from the checkpoint before it.")
    return None


def remove_older(run: Path, keep: int, also: set[int]) -> None:
    """Keep the newest few, and those that are still needed."""
    for directory in numbered(run, "step")[:-keep]:
        if int(directory.name.removeprefix("step-")) not in also:
            remove(directory)


def remove(directory: Path) -> None:
    """First its name goes, then its files: half a checkpoint must never look like one. What cannot be removed stays."""
    going = directory.with_name(f"{ASIDE}gone-{directory.name}")
    with contextlib.suppress(OSError):
        shutil.rmtree(going, ignore_errors=True)
        directory.rename(going)
        shutil.rmtree(going, ignore_errors=True)


def sweep(run: Path) -> None:
    """Remove what a killed process left half-built; only for whoever holds the run's lock."""
    for path in run.rglob(f"{ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)


def _unused(path: Path) -> Path:
    number = 1
    name = path
    while name.exists():
        number += 1
        name = path.with_name(f"{path.name}-{number}")
    return name


def write_json(path: Path, value: object) -> None:
    """A value as a JSON file, replaced in one go."""
    replace_file(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
