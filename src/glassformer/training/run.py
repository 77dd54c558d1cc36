"""A whole run, from options to report: in one process, with helper processes on this machine, or under torchrun."""

import contextlib
import json
from pathlib import Path
from typing import Any

from glassformer.atomic_directory import verify
from glassformer.data.corpus import Watch, unwatched
from glassformer.engine.devices import chosen_device
from glassformer.errors import DirectoryError, GlassformerError
from glassformer.model_location import checkpoint_directories
from glassformer.training.distributed import ProcessGroup, local_group, torchrun_group, under_torchrun
from glassformer.training.option_aliases import canonical
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.run_report import REPORT, write_report
from glassformer.training.run_resources import keep_memory
from glassformer.training.run_settings import RunSettings
from glassformer.training.run_setup import Run, open_run, prepare_run
from glassformer.training.training_loop import Trainer


def train_run(
    options: dict[str, Any], listener: ProgressListener | None = None, watch: Watch = unwatched
) -> dict[str, Any]:
    """Train with `options` (the tables of a run's TOML file), or resume the run; returns the report.

    `train_run({"out": "runs/mine", "data": {"source": "a.en", "target": "a.de"}})` is all it needs.
    """
    listener = listener or ProgressListener()
    options = canonical(options)
    keep_memory()
    try:
        start = _train_under_torchrun if under_torchrun() else _train_locally
        return start(options, listener, watch)
    except OSError as error:
        raise DirectoryError(
            f"The run in {options['out']} has stopped: {error.strerror or error} "
            f"({error.filename or 'while writing'}). Saved checkpoints are intact; run the same command to resume."
        ) from error


def _train_locally(options: dict[str, Any], listener: ProgressListener, watch: Watch) -> dict[str, Any]:
    with prepare_run(options, listener.message, watch) as run:
        if (report := finished_report(run)) is not None:
            listener.message(f"{run.directory} is already finished: {report['ended']}.")
            _report_damage(run.directory, listener)
            return report
        training = run.settings.training
        with local_group(training.ranks or 1, run.directory, chosen_device(training.device)) as group:
            return train_as_rank(run, group, listener) or {}


def train_as_rank(run: Run, group: ProcessGroup, listener: ProgressListener) -> dict[str, Any] | None:
    """Train as one rank (process) of the run; rank 0 returns the report."""
    if group.device.type != "cpu":
        listener.message(f"Training on {group.device}.")
    trainer = Trainer(run, group, listener)
    trainer.train()
    results = trainer.final_scores()
    if not group.is_main:
        return None
    # Imported here: needed once per run, and not by every import of this module.
    from glassformer.training.alignment_heads import select_alignment_heads

    select_alignment_heads(run, run.directory / f"best-{trainer.state.best_update}", listener.message)
    return write_report(run, trainer.state, trainer.model.n_parameters, results)


def finished_report(run: Run) -> dict[str, Any] | None:
    """The report of a finished run; None if updates are left to do."""
    path = run.directory / REPORT
    if not path.exists():
        return None
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    extended = (run.settings.training.updates or 0) > report["updates_asked_for"]
    return None if extended else report


def _report_damage(run_directory: Path, listener: ProgressListener) -> None:
    """Report the damaged models and checkpoints of a finished run."""
    meanings = {
        "best": "It is the model of this run: without a copy, train again with another --out.",
        "step": "Only a run with more updates needs it, and would resume from the checkpoint before it.",
    }
    for kind, meaning in meanings.items():
        for directory in checkpoint_directories(run_directory, kind):
            try:
                verify(directory)
            except DirectoryError as error:
                listener.message(f"{error} {meaning}")


def _train_under_torchrun(options: dict[str, Any], listener: ProgressListener, watch: Watch) -> dict[str, Any]:
    device = RunSettings(**options).training.device
    with torchrun_group(device) as group, contextlib.ExitStack() as stack:
        options = options | {"training": {"ranks": group.size} | options.get("training", {})}
        run, failure = None, None
        if group.is_main:  # prepares the run while the other ranks wait
            try:
                run = stack.enter_context(prepare_run(options, listener.message, watch))
            except GlassformerError as error:
                failure = error
        if group.any(failure is not None):
            raise failure or GlassformerError("Rank 0 could not start the run; see its error message.")
        run = run or open_run(Path(options["out"]))
        if (report := finished_report(run)) is not None:
            return report
        return train_as_rank(run, group, listener if group.is_main else ProgressListener()) or {}
