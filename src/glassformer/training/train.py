"""From options to a finished run: alone, with helpers on this machine, or as one rank of torchrun's."""

import contextlib
import json
from pathlib import Path
from typing import Any

from glassformer.data.corpus import Watch, unwatched
from glassformer.errors import DirectoryError, GlassformerError
from glassformer.training.distributed import ProcessGroup, local_world, torchrun_world, under_torchrun
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.run_report import REPORT, write_report
from glassformer.training.run_resources import keep_memory
from glassformer.training.run_setup import Run, begin, open_run
from glassformer.training.training_loop import Trainer


def train(options: dict[str, Any], watcher: ProgressListener | None = None, watch: Watch = unwatched) -> dict[str, Any]:
    """Train as `options` say (the tables of a run's TOML file), or go on where the run was left; its report.

    `train({"out": "runs/mine", "data": {"source": "a.en", "target": "a.de"}})` is all it needs.
    """
    watcher = watcher or ProgressListener()
    keep_memory()
    try:
        run_here = _train_under_torchrun if under_torchrun() else _train_here
        return run_here(options, watcher, watch)
    except OSError as error:
        raise DirectoryError(
            f"The run in {options['out']} had to stop: {error.strerror or error} "
            f"({error.filename or 'while writing'}). What is saved is whole; the same command goes on."
        ) from error


def _train_here(options: dict[str, Any], watcher: ProgressListener, watch: Watch) -> dict[str, Any]:
    with begin(options, watcher.said, watch) as run:
        if (report := finished_report(run)) is not None:
            watcher.said(f"{run.directory} is finished already: {report['ended']}.")
            return report
        with local_world(run.settings.training.ranks or 1, run.directory) as world:
            return work(run, world, watcher) or {}


def work(run: Run, world: ProcessGroup, watcher: ProgressListener) -> dict[str, Any] | None:
    """What every rank does; the chief returns the report."""
    trainer = Trainer(run, world, watcher)
    trainer.train()
    results = trainer.last_scores()
    if not world.is_chief:
        return None
    from glassformer.training.alignment_heads import choose_alignment  # wanted once a run, and not by every import

    choose_alignment(run, run.directory / f"best-{trainer.state.best_update}", watcher.said)
    return write_report(run, trainer.state, trainer.model.n_parameters, results)


def finished_report(run: Run) -> dict[str, Any] | None:
    """The report of a run that has nothing left to do."""
    path = run.directory / REPORT
    if not path.exists():
        return None
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    longer = (run.settings.training.updates or 0) > report["updates_asked_for"]
    return None if longer else report


def _train_under_torchrun(options: dict[str, Any], watcher: ProgressListener, watch: Watch) -> dict[str, Any]:
    with torchrun_world() as world, contextlib.ExitStack() as stack:
        options = options | {"training": {"ranks": world.size} | options.get("training", {})}
        run, failure = None, None
        if world.is_chief:  # the others wait, and find everything made
            try:
                run = stack.enter_context(begin(options, watcher.said, watch))
            except GlassformerError as error:
                failure = error
        if world.any(failure is not None):
            raise failure or GlassformerError("The first rank could not begin; it says why.")
        run = run or open_run(Path(options["out"]))
        if (report := finished_report(run)) is not None:
            return report
        return work(run, world, watcher if world.is_chief else ProgressListener()) or {}
