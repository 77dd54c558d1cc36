"""Dry run: all checks and preparations of a run, and what it would take, without a trace of it on the disk."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data import epoch_batches
from glassformer.data.corpus import Watch, unwatched
from glassformer.errors import SettingsError
from glassformer.training.distributed import under_torchrun
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.run import train_run
from glassformer.training.run_settings import RunSettings
from glassformer.training.run_setup import RUN, Run, check_directory, open_run


@dataclass(frozen=True)
class RunPlan:
    """What a run would do and take."""

    settings: RunSettings
    """All settings, with the values chosen for this corpus."""
    pairs: int
    dev_pairs: int
    parameters: int
    epochs: float
    seconds: float
    """Predicted training time, measured on the first batches."""
    memory: int
    """Predicted memory, in bytes."""


class _Reached(Exception):  # noqa: N818 - the end of a dry run, not an error
    """Raised where the updates would begin."""

    def __init__(self, prediction: tuple[float, int]) -> None:
        super().__init__()
        self.prediction = prediction


class _UntilTheUpdates(ProgressListener):
    def __init__(self, listener: ProgressListener) -> None:
        self.listener = listener

    def message(self, text: str) -> None:
        self.listener.message(text)

    def began(self, done: int, total: int, prediction: tuple[float, int]) -> None:
        raise _Reached(prediction)


def plan(options: dict[str, Any], listener: ProgressListener | None = None, watch: Watch = unwatched) -> RunPlan:
    """Prepare the run of these options in a temporary directory, up to its first update, and return what it takes."""
    directory = Path(options["out"])
    if under_torchrun():
        raise SettingsError("A dry run has one process: start it without torchrun.")
    if (directory / RUN).exists():
        raise SettingsError(f"{directory} already holds a run: the same command without --dry-run resumes it.")
    check_directory(directory)
    with tempfile.TemporaryDirectory(prefix="glassformer-") as temporary:
        trial = Path(temporary) / "run"
        try:
            train_run(options | {"out": str(trial)}, _UntilTheUpdates(listener or ProgressListener()), watch)
        except _Reached as reached:
            return _plan(open_run(trial), str(directory), *reached.prediction)
    raise AssertionError("a new run has updates")


def _plan(run: Run, out: str, seconds: float, memory: int) -> RunPlan:
    training = run.settings.training
    micro_batches, updates = training.micro_batches or 1, training.updates or 0
    batches = len(epoch_batches(run.lengths, training.batch_tokens // micro_batches, run.settings.seed, epoch=0))
    return RunPlan(
        run.settings.model_copy(update={"out": out}),
        pairs=len(run.store),
        dev_pairs=len(run.dev),
        parameters=run.new_model().n_parameters,
        epochs=updates * micro_batches / batches,
        seconds=seconds,
        memory=memory,
    )
