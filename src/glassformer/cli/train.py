"""`glassformer train`: train a model on parallel text, or resume an interrupted run."""

import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.common.progress_counter import with_progress
from glassformer.errors import SettingsError
from glassformer.settings import read_table
from glassformer.text_layout import columns, cut, paragraph

MAX_WIDTH = 100  # columns of the terminal


def train(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.toml", help="Options of the run; those of the command line override it."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Source sentences, one per line; or a .tsv, .csv or .jsonl file with both sides."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Target sentences, line by line.")] = None,
    dev_source: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Validation set, source side; by default split off the training data."),
    ] = None,
    dev_target: Annotated[str | None, typer.Option(metavar="FILE", help="Validation set, target side.")] = None,
    test_source: Annotated[
        str | None, typer.Option(metavar="FILE", help="Test set for the final scores, source side.")
    ] = None,
    test_target: Annotated[str | None, typer.Option(metavar="FILE", help="Test set, target side.")] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Run directory. If it holds an interrupted run, that is resumed.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Model size: tiny, small, paper-base, ...; by default chosen for the corpus."
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(metavar="N", help="Passes over the corpus; by default chosen for its size.")
    ] = None,
    updates: Annotated[
        int | None, typer.Option(metavar="N", help="Optimiser steps, instead of passes over the corpus.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens per update, source and target; by default 4096.")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--lr", "--learning-rate", metavar="RATE", help="Peak learning rate; by default 0.002."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Random seed; by default 1.")] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where to compute: cpu, cuda (or cuda:1 and so on), mps; by default auto, a CUDA GPU if there is one.",
        ),
    ] = None,
    finetune: Annotated[str | None, typer.Option(metavar="MODEL", help="Start from this model (fine-tuning).")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.OPTION=VALUE", help="Set any option of the TOML file; may be repeated."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and predict time and memory; nothing is written.")
    ] = False,
    list_options: Annotated[
        bool, typer.Option("--options", help="Print every option of the TOML file with its default and meaning.")
    ] = False,
    init: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Write a TOML file with every option and its meaning, to edit."),
    ] = None,
) -> None:
    """Train a model on parallel text.

    Ctrl-C saves a checkpoint; the same command resumes from it and ends with bitwise the same model.
    """
    flags = {
        "data.source": source,
        "data.target": target,
        "data.dev_source": dev_source,
        "data.dev_target": dev_target,
        "data.test_source": test_source,
        "data.test_target": test_target,
        "model.preset": preset,
        "training.device": device,
        "training.epochs": epochs,
        "training.updates": updates,
        "training.batch_tokens": batch_tokens,
        "training.learning_rate": learning_rate,
        "seed": seed,
        "out": out,
        "finetune": finetune,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    if list_options:
        from glassformer.training.run_options import options_text

        typer.echo(options_text(min(shutil.get_terminal_size().columns, MAX_WIDTH)))
        return
    if init is not None:
        write_starting_file(init, given, changes or [])
        return
    options = options_from(run, given, changes or [])
    if dry_run:
        typer.echo(planned_text(options))
        return
    report = train_in_terminal(options)
    if report:
        typer.echo(summary(report, Path(str(options["out"]))))


def write_starting_file(path: Path, given: dict[str, Any], changes: list[str]) -> None:
    """Write a commented TOML file with the given options set, unless there is a file of that name."""
    from glassformer.atomic_directory import refuse_existing, replace_file
    from glassformer.training.option_aliases import canonical
    from glassformer.training.run_options import starting_file

    if path.suffix != ".toml":
        raise SettingsError(f"--init {path} should be a .toml file.")
    refuse_existing(path)
    replace_file(path, starting_file(canonical(with_changes({}, given, changes))).encode())
    typer.echo(f"Written to {path}. Edit it, then: glassformer train {shlex.quote(str(path))}")


def planned_text(options: dict[str, Any]) -> str:
    """What a run would do and take, from a dry run."""
    from glassformer.training import plan
    from glassformer.training.run_report import duration
    from glassformer.training.training_display import LogDisplay

    run = plan(options, LogDisplay(), with_progress)
    training = run.settings.training
    begins = run.settings.model.get("preset") or run.settings.finetune
    rows = [
        ("corpus", f"{run.pairs:,} pairs, and {run.dev_pairs:,} for validation"),
        ("model", f"{begins}, {run.parameters:,} parameters"),
        ("updates", f"{training.updates:,} of {training.batch_tokens:,} tokens: {run.epochs:.1f} epochs"),
        ("time", f"about {duration(run.seconds)} without validations, measured on the first batches"),
        ("memory", f"about {run.memory / 1e9:.1f} GB"),
    ]
    return f"{columns(rows)}\n\nNothing was written. Without --dry-run, the run begins in {run.settings.out}."


def train_in_terminal(options: dict[str, Any]) -> dict[str, Any]:
    """Train with progress on stderr and return the report. After a signal, exit with 128 + its number."""
    from glassformer.training import Interrupted, train_run
    from glassformer.training.training_display import shown_on_stderr

    try:
        with shown_on_stderr() as display:
            return train_run(options, display, with_progress)
    except Interrupted as stopped:
        typer.echo(f"Saved at update {stopped.update:,}. Run the same command to resume.", err=True)
        raise typer.Exit(128 + stopped.received) from None


def options_from(file: Path | None, flags: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """Options of a run: the tables of the TOML file, overridden by the flags and then by `--set`."""
    if file is not None and file.suffix != ".toml":
        raise SettingsError(f"{file} should be a .toml file; give text files with --source and --target.")
    from glassformer.training.option_aliases import canonical

    table = with_changes({} if file is None else canonical(read_table(file)), flags, changes)
    for name, flag in (("data.source", "--source"), ("out", "--out")):
        section, _, option = name.rpartition(".")
        if option not in (table.get(section, {}) if section else table):
            what = "file with the source sentences" if section else "directory for the run"
            raise SettingsError(f"{flag} is missing: give the {what}.")
    return table


def with_changes(table: dict[str, Any], flags: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """The tables of a run, overridden by the flags and then by `--set`."""
    for one, other in (("epochs", "updates"), ("updates", "epochs")):
        if f"training.{one}" in flags and f"training.{other}" not in flags and isinstance(table.get("training"), dict):
            table["training"].pop(other, None)  # two ways to say how long: the command line's counts
    for name, value in [*flags.items(), *map(_parse_change, changes)]:
        *sections, option = name.split(".")
        section_table = table
        for section in sections:
            section_table = section_table.setdefault(section, {})
            if not isinstance(section_table, dict):
                raise SettingsError(f"{name!r} cannot be set: {section!r} is a single value, not a section.")
        section_table[option] = value
    return table


def _parse_change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"--set {text!r} should be SECTION.OPTION=VALUE, as in --set training.updates=1000.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value  # a word without quotes


def summary(report: dict[str, Any], directory: Path) -> str:
    """The result of a finished run, as text."""
    from glassformer.training.run_report import duration, length_warning

    rows = [("set", "BLEU", "chrF", "signature")]
    for name, scores in report["scores"].items():
        rows.append((name, f"{scores['bleu']:.2f}", f"{scores['chrf']:.2f}", scores["signature"]))
    sample = report["translations"][0]
    return "\n".join(
        (
            f"{report['updates']:,} updates in {duration(report['seconds'])}; {report['ended']}.",
            "",
            columns(rows, "lrrl"),
            "",
            f"{cut(sample['source'], '  ')}\n{cut(sample['translation'], '  ')}",
            "",
            *([] if (warning := length_warning(report)) is None else [paragraph(warning), ""]),
            f"model   {directory / report['model']}",
            f"report  {directory / 'report.html'}",
        )
    )
