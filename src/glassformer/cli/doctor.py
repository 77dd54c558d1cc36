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
    from glassformer.data import Corpus, Diagnosis


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
    parts = [f"{data}: {diagnosis.pairs:,} pairs", _sizes(diagnosis)]
    if diagnosis.shifts:
        parts.append(paragraph(_shifts(diagnosis, data)))
    if diagnosis.findings:
        parts.append(_table(diagnosis))
    if not diagnosis.shifts:
        parts += [] if diagnosis.findings else ["No problems found."]
        parts += [paragraph(_conclusion(diagnosis, fix))] if diagnosis.findings or fix else []
    typer.echo("\n\n".join(parts))


def _sizes(diagnosis: "Diagnosis") -> str:
    rows = [("side", "words", "characters", "per pair", "longest")]
    for side, size in zip(("source", "target"), diagnosis.sizes, strict=True):
        mean = f"{size.characters / diagnosis.pairs:.1f}"
        rows.append((side, f"{size.words:,}", f"{size.characters:,}", mean, f"{size.longest:,}"))
    source, target = diagnosis.sizes
    ratios = [
        there / max(here, 1) for here, there in ((source.words, target.words), (source.characters, target.characters))
    ]
    rows.append(("ratio", f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", "", ""))
    return columns(rows, "lrrrr")


def _shifts(diagnosis: "Diagnosis", data: "Corpus") -> str:
    from glassformer.data.line_shifts import describe, shifted_pairs

    return (
        f"shifted: {shifted_pairs(diagnosis.shifts, diagnosis.pairs):,} of {diagnosis.pairs:,} pairs do not belong "
        f"together. {describe(diagnosis.shifts, data)} Correct this and check again: until then, pairs are not "
        "compared with the rest of the corpus, and --fix writes nothing."
    )


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
