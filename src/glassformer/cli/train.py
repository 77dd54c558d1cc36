"""`glassformer train`: from two text files to a model, and back to work after any interruption."""

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.progress import watched
from glassformer.cli.text import columns
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.cli.training_display import LinesWatcher
    from glassformer.training import Interrupted


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
    start_from: Annotated[str | None, typer.Option(metavar="MODEL", help="Go on from a model (fine-tuning).")] = None,
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
        "start_from": start_from,
    }
    options = options_from(run, {name: value for name, value in flags.items() if value is not None}, changes or [])

    from glassformer.training import Interrupted
    from glassformer.training import train as run_training

    watcher = terminal_watcher()
    try:
        report = run_training(options, watcher, watched)
    except Interrupted as stopped:
        raise leave(watcher, stopped) from None
    finally:
        watcher.close()
    if report:
        typer.echo(summary(report, Path(str(options["out"]))))


def leave(watcher: "LinesWatcher", stopped: "Interrupted") -> typer.Exit:
    """Say that all is saved, and how to go on; the exit code is the one of programs that a signal ended."""
    watcher.close()
    typer.echo(f"Saved at update {stopped.update:,}. The same command goes on from there.", err=True)
    return typer.Exit(128 + stopped.received)


def options_from(file: Path | None, flags: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """The file's tables, with what flags and `--set` say put in."""
    from glassformer.training.run import read_run_table

    table: dict[str, Any] = {} if file is None else read_run_table(file)
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
    from glassformer.training.report import duration

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


def terminal_watcher() -> "LinesWatcher":
    """A live display where a person looks at it, plain lines elsewhere; all of it on stderr."""
    from glassformer.cli.training_display import LinesWatcher, LiveWatcher

    return LiveWatcher() if sys.stderr.isatty() else LinesWatcher()
