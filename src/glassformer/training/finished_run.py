"""`train`: training from Python, with options as arguments; returns the finished run with its scores and its model."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.errors import SettingsError
from glassformer.loading import load
from glassformer.settings import no_such_option, read_table
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.run import train_run
from glassformer.training.run_settings import TrainingSettings
from glassformer.translator import Translator

Table = Mapping[str, Any]
PathOrName = str | os.PathLike[str]


@dataclass(frozen=True)
class FinishedRun:
    """A finished training run: its directory, its report, and its best model."""

    directory: Path
    report: dict[str, Any] = field(repr=False)
    """The contents of report.json: scores, updates, seconds, translations."""

    @cached_property
    def translator(self) -> Translator:
        """The run's best model, loaded when first used."""
        return load(self.directory)

    @property
    def bleu(self) -> float:
        """BLEU on the test set, or on the validation set of a run without one."""
        return float(self.report["bleu"])

    @property
    def chrf(self) -> float:
        """chrF on the same set."""
        return float(self.report["chrf"])


def train(
    run: PathOrName | Table | None = None,
    *,
    source: PathOrName | None = None,
    target: PathOrName | None = None,
    out: PathOrName | None = None,
    dev_source: PathOrName | None = None,
    dev_target: PathOrName | None = None,
    test_source: PathOrName | None = None,
    test_target: PathOrName | None = None,
    preset: str | None = None,
    finetune: PathOrName | None = None,
    seed: int | None = None,
    updates: int | None = None,
    epochs: float | None = None,
    data: Table | None = None,
    tokenizer: Table | None = None,
    model: Table | None = None,
    training: Table | None = None,
    validation: Table | None = None,
    listener: ProgressListener | None = None,
    **options: Any,
) -> FinishedRun:
    """Train a model on parallel text, or resume the interrupted run in `out`; returns when the run is finished.

    >>> run = gf.train(source="train.en", target="train.de", out="runs/mine", preset="tiny", updates=2)
    >>> run.translator.translate(["The animal was tired."])[0] == run.translator("The animal was tired.")
    True

    `source` and `target` are text files, line by line; or `source` is a .tsv or .jsonl file with both sides. What is
    left out is chosen for the corpus. `data`, `tokenizer`, `model`, `training` and `validation` are the sections of
    run.toml, as in `model={"d_model": 256}`; `options` are further options of the section `training`, such as
    `learning_rate=0.001`. `run`: a TOML file with all of these, or its tables; arguments override it.

    Progress is shown on stderr, unless a `listener` gets it; `gf.ProgressListener()` is silent. The first Ctrl-C saves
    a checkpoint; the same call resumes, and ends with bitwise the same model.
    """
    for name in options:
        if name not in TrainingSettings.model_fields:
            raise SettingsError(no_such_option(name, name, [*train.__annotations__, *TrainingSettings.model_fields]))
    texts = {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target}
    texts |= {"test_source": test_source, "test_target": test_target}
    table = dict(run) if isinstance(run, Mapping) else {} if run is None else read_table(Path(run))
    for section, tables in {
        "data": (data, texts),
        "tokenizer": (tokenizer,),
        "model": (model, {"preset": preset}),
        "training": (training, {"updates": updates, "epochs": epochs}, options),
        "validation": (validation,),
    }.items():
        if merged := _merged(section, table.get(section), *tables):
            table[section] = merged
    table |= _given({"out": out, "finetune": finetune, "seed": seed})
    from glassformer.training.training_display import shown_on_stderr

    with shown_on_stderr() if listener is None else nullcontext(listener) as shown:
        report = train_run(table, shown)
    return FinishedRun(Path(table["out"]), report)


def _merged(section: str, *tables: Table | None) -> dict[str, Any]:
    """The options of a section, each from the last of these tables that has it."""
    merged: dict[str, Any] = {}
    for table in tables:
        if table is not None and not isinstance(table, Mapping):
            raise SettingsError(f"{section} = {table!r} should contain named options.")
        merged |= _given(table or {})
    return merged


def _given(options: Table) -> dict[str, Any]:
    """The options that are not None; paths as text."""
    given = {name: value for name, value in options.items() if value is not None}
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in given.items()}
