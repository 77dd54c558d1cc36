"""`glassformer train`: train a model on parallel text, or resume an interrupted run."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.common.progress_counter import with_progress
from glassformer.errors import SettingsError
from glassformer.settings import read_table
from glassformer.text_layout import columns


def train(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.toml", help="Options of the run; those of the command line override it."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Source sentences, one per line; or a .tsv or .jsonl file with both sides."),
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
    finetune: Annotated[str | None, typer.Option(metavar="MODEL", help="Start from this model (fine-tuning).")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.OPTION=VALUE", help="Set any option of the TOML file; may be repeated."),
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
        "out": out,
        "finetune": finetune,
    }
    options = options_from(run, {name: value for name, value in flags.items() if value is not None}, changes or [])

    report = train_in_terminal(options)
    if report:
        typer.echo(summary(report, Path(str(options["out"]))))


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
    table: dict[str, Any] = {} if file is None else read_table(file)
    for name, value in [*flags.items(), *map(_parse_change, changes)]:
        *sections, option = name.split(".")
        section_table = table
        for section in sections:
            section_table = section_table.setdefault(section, {})
            if not isinstance(section_table, dict):
                raise SettingsError(f"{name!r} cannot be set: {section!r} is a single value, not a section.")
        section_table[option] = value
    for name, flag in (("data.source", "--source"), ("out", "--out")):
        section, _, option = name.rpartition(".")
        if option not in (table.get(section, {}) if section else table):
            what = "file with the source sentences" if section else "directory for the run"
            raise SettingsError(f"{flag} is missing: give the {what}.")
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
    from glassformer.training.run_report import duration

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
            f"  {sample['source']}\n  {sample['translation']}",
            "",
            f"model   {directory / report['model']}",
            f"report  {directory / 'report.html'}",
        )
    )
