"""`glassformer trace`: all intermediate results of a sentence's translation, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.common import search_options as shared
from glassformer.cli.common.progress_counter import ProgressCounter


def trace(
    model: shared.Model,
    sentence: shared.Sentence,
    out: Annotated[Path, typer.Argument(metavar="FILE.safetensors", help="File to write.")],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Trace this translation instead of the model's own.")
    ] = None,
    beam: shared.OptionalBeamSize = None,
    hypothesis: Annotated[
        int, typer.Option(min=0, metavar="N", help="Trace this finished hypothesis of the search; 0 is the best.")
    ] = 0,
    steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Trace only the first N target positions.")
    ] = None,
    detail: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What to store: attention (weights only), full (all but heads_out and logits) or everything.",
        ),
    ] = "full",
    half: Annotated[
        bool, typer.Option("--half", help="Store float16: half the size, about three significant digits.")
    ] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Include matching weights: 'decoder.*.cross_attention.*'; may be repeated."
        ),
    ] = None,
    source_language: shared.SourceLanguage = None,
    target_language: shared.TargetLanguage = None,
) -> None:
    """Record every intermediate result of a sentence's translation, by name, and the search tree.

    The result is one safetensors file; `glassformer.Trace.load` reads it lazily and without the model.
    """
    with ProgressCounter("Tracing,"):
        from glassformer.inspection import inspect
        from glassformer.inspection.tracing.trace_file import DETAILS
        from glassformer.loading import load

        known_detail = shared.chosen("--detail", detail, DETAILS)
        translator = load(model, source_language=source_language, target_language=target_language)
        recorded = inspect(translator).trace(sentence, target, beam=beam, hypothesis=hypothesis, steps=steps)
        recorded.save(out, known_detail, half, parameters or ())
    typer.echo(recorded.translation)
    tree = f", {len(recorded.tree):,} hypotheses in the search tree" if recorded.tree else ""
    typer.echo(
        f"{out}: {len(recorded.source)} source and {recorded.steps} target positions, "
        f"{recorded.config.encoder_layers} + {recorded.config.decoder_layers} layers{tree}; "
        f"{out.stat().st_size:,} bytes."
    )
