"""`glassformer doctor`: checks of parallel text, with line numbers, and a clean copy of it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.progress_counter import with_progress
from glassformer.cli.common.search_options import SourceFile
from glassformer.text_layout import columns, paragraph

if TYPE_CHECKING:
    from glassformer.data import Diagnosis


def doctor(
    source: SourceFile,
    target: Annotated[Path | None, typer.Option(metavar="FILE", help="Target sentences, line by line.")] = None,
    test_source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Test set that must not occur in the data.")
    ] = None,
    test_target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Target side of the test set, if in its own file.")
    ] = None,
    fix: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a clean copy into this new directory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check parallel text for problems. With --fix, write a clean copy.

    Any file may be compressed (.gz).
    """
    from glassformer.data import corpus, diagnose

    data = corpus(source, target, "--target")
    test = None if test_source is None else corpus(test_source, test_target, "--test-target")
    diagnosis = diagnose(data, test, fix, with_progress)
    if as_json:
        typer.echo(json.dumps(asdict(diagnosis), indent=2))
        return
    typer.echo(f"{data}: {diagnosis.pairs:,} pairs\n")
    typer.echo(_table(diagnosis) if diagnosis.findings else "No problems found.")
    if diagnosis.findings or fix is not None:
        typer.echo("\n" + paragraph(_conclusion(diagnosis, fix)))


def _table(diagnosis: "Diagnosis") -> str:
    from glassformer.data.corpus_scan import KINDS

    rows = [("finding", "pairs", "share", "lines", "what it means")]
    for kind, finding in diagnosis.findings.items():
        share = f"{100 * finding.count / diagnosis.pairs:.2f} %"
        lines = ", ".join(map(str, finding.lines)) + (", ..." if finding.count > len(finding.lines) else "")
        rows.append((kind, f"{finding.count:,}", share, lines, KINDS[kind]))
    return columns(rows, "lrrll")


def _conclusion(diagnosis: "Diagnosis", fix: Path | None) -> str:
    kept = f"{diagnosis.kept:,} of {diagnosis.pairs:,} pairs"
    if fix is not None:
        return f"{fix} is a clean copy: {kept}, with control characters and foreign line ends replaced by spaces."
    return f"--fix DIR writes a clean copy of {kept}, with control characters and foreign line ends replaced by spaces."
