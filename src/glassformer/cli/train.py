"""`glassformer train`: from two text files to a model, and back to work after any interruption."""

import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.progress_counter import watched
from glassformer.cli.text_layout import columns
from glassformer.errors import SettingsError
from glassformer.settings import read_table


def train(
    run: Annotated[Path | None, typer.Argument(help="A run's TOML file; options given beside it win.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Sentences, a line each; or a .tsv or .jsonl with both sides.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Their counterparts, line by line.")] = None,
    dev_source: Annotated[str | None, typer.Option(help="Sentences to watch with; else split off the others.")] = None,
    dev_target: Annotated[str | None, typer.Option(help="Their counterparts.")] = None,
    test_source: Annotated[str | None, typer.Option(help="Sentences for the last score.")] = None,
    test_target: Annotated[str | None, typer.Option(help="Their counterparts.")] = None,
    out: Annotated[
        str | None, typer.Option(help="The run's directory. The same again goes on where it stopped.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, paper-base, ...; else chosen from the corpus.")
    ] = None,
    finetune: Annotated[str | None, typer.Option(metavar="MODEL", help="Go on from a model (fine-tuning).")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.OPTION=VALUE", help="Any option of the file; may be repeated."),
    ] = None,
) -> None:
    """Train a model on parallel text. Ctrl-C saves; the same command goes on, to the same bits."""
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
    """Train while telling how it goes; the report. Asked to stop, leave as programs do that a signal ended."""
    from glassformer.cli.training_display import LinesWatcher, LiveWatcher
    from glassformer.training import Interrupted
    from glassformer.training import train as run_training

    watcher = LiveWatcher() if sys.stderr.isatty() else LinesWatcher()
    try:
        return run_training(options, watcher, watched)
    except Interrupted as stopped:
        watcher.close()
        typer.echo(f"Saved at update {stopped.update:,}. The same command goes on from there.", err=True)
        raise typer.Exit(128 + stopped.received) from None
    finally:
        watcher.close()


def options_from(file: Path | None, flags: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """The file's tables, with what flags and `--set` say put in."""
    if file is not None and file.suffix != ".toml":
        raise SettingsError(f"{file} should be a .toml file; text files are given with --source and --target.")
    table: dict[str, Any] = {} if file is None else read_table(file)
    for name, value in [*flags.items(), *map(_change, changes)]:
        *sections, option = name.split(".")
        place = table
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise SettingsError(f"There is no section {section!r} to set {name!r} in.")
        place[option] = value
    for name, flag in (("data.source", "--source"), ("out", "--out")):
        section, _, option = name.rpartition(".")
        if option not in (table.get(section, {}) if section else table):
            raise SettingsError(f"{flag} is missing: say where the {'sentences are' if section else 'run shall go'}.")
    return table


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"--set {text!r} should be like --set training.updates=1000.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value  # a word without quotes


def summary(report: dict[str, Any], directory: Path) -> str:
    """The end of a run, as text."""
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
