"""`glassformer export`: a model in another program's format, checked to give the same translations there."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import Model
from glassformer.interop.export_formats import QUANTIZATIONS, ExportFormat


def export(
    model: Model,
    target: Annotated[Path, typer.Argument(metavar="TO", help="Directory to create.")],
    to: Annotated[
        ExportFormat, typer.Option("--to", metavar="|".join(get_args(ExportFormat)), help="The program to export to.")
    ],
    quantization: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"For ctranslate2: {', '.join(QUANTIZATIONS)} (the default).")
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentences to verify with, one per line; by default built-in ones."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of sentences to verify with.")] = 50,
) -> None:
    """Export a model to another program, and verify that it translates the same there.

    Both programs translate some sentences. If a single token differs in float32, nothing is written; with other
    quantizations the differences are reported.
    """
    from glassformer.conversion import export as export_model

    with ProgressCounter("Writing and verifying,"):
        exported = export_model(model, target, to, quantization=quantization, text=text, count=count)
    typer.echo(f"{exported.label}: {exported.verification}")
    typer.echo(f"Written to {exported.directory}.")
