"""`glassformer doctor`: what is wrong with this data, line by line."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.progress_counter import watched
from glassformer.cli.text_layout import columns, paragraph

if TYPE_CHECKING:
    from glassformer.data import Diagnosis


def doctor(
    source: Annotated[Path, typer.Option(help="Sentences, a line each; or a .tsv or .jsonl file with both sides.")],
    target: Annotated[Path | None, typer.Option(help="Their counterparts, line by line.")] = None,
    test_source: Annotated[Path | None, typer.Option(help="A test set that must not be in the data.")] = None,
    test_target: Annotated[Path | None, typer.Option(help="Its counterparts, if in a file of their own.")] = None,
    fix: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a clean copy into this new directory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, for programs.")] = False,
) -> None:
    """Look for trouble in parallel text: with --fix, write a clean copy. Any file may end in .gz."""
    from glassformer.data import corpus, diagnose

    data = corpus(source, target)
    test = None if test_source is None else corpus(test_source, test_target)
    found = diagnose(data, test, fix, watched)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    typer.echo(f"{data}: {found.pairs:,} pairs\n")
    typer.echo(_table(found) if found.findings else "Nothing remarkable was found.")
    if found.findings or fix is not None:
        typer.echo("\n" + paragraph(_conclusion(found, fix)))


def _table(found: "Diagnosis") -> str:
    from glassformer.data.doctor import KINDS

    rows = [("finding", "pairs", "share", "lines", "what it means")]
    for kind, finding in found.findings.items():
        more = ", ..." if finding.count > len(finding.lines) else ""
        rows.append(
            (
                kind,
                f"{finding.count:,}",
                f"{100 * finding.count / found.pairs:.2f} %",
                ", ".join(map(str, finding.lines)) + more,
                KINDS[kind],
            )
        )
    return columns(rows, "lrrll")


def _conclusion(found: "Diagnosis", fix: Path | None) -> str:
    kept = f"{found.kept:,} of {found.pairs:,} pairs"
    if fix is not None:
        return f"{fix} holds a clean copy: {kept}, control characters and foreign line ends replaced by spaces."
    return f"With --fix OUT, a clean copy of {kept} is written, control characters and foreign line ends replaced."
