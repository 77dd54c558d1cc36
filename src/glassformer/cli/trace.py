"""`glassformer trace`: a sentence's way through a model, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.search_options import AnyModel, SourceLanguage, TargetLanguage
from glassformer.errors import SettingsError


def trace(
    model: AnyModel,
    sentence: Annotated[str, typer.Argument(help="What to translate, in quotes.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.safetensors", help="Where the trace goes.")],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Trace this translation, not the model's own.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, max=1000, help="Hypotheses kept; 1 is greedy search.")] = None,
    hypothesis: Annotated[int, typer.Option(min=0, help="Follow this one of those that ended, the best is 0.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Only so many target positions.")] = None,
    detail: Annotated[str, typer.Option(help="attention; full: all but heads_out and logits; everything.")] = "full",
    half: Annotated[bool, typer.Option("--half", help="In float16: half as large, three digits.")] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Weights to go with it: 'decoder.*.cross_attention.*'; may be repeated."),
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Write down a sentence's way through a model: every intermediate by name, and the tree of the search.

    One safetensors file; `glassformer.Trace.load` reads what is asked for, and needs no model.
    """
    from glassformer.inspection.tracing.trace_file import DETAILS
    from glassformer.loading import load

    kind = next((known for known in DETAILS if known == detail), None)
    if kind is None:
        raise SettingsError(f"--detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
    translator = load(model, source_language=source_language, target_language=target_language)
    made = translator.trace(sentence, target, beam=beam, hypothesis=hypothesis, steps=steps)
    made.save(out, kind, half, parameters or ())
    typer.echo(made.translation)
    searched = f", {len(made.tree):,} hypotheses of the search" if made.tree else ""
    typer.echo(
        f"{out}: {len(made.source)} source and {made.steps} target positions, {made.config.encoder_layers} + "
        f"{made.config.decoder_layers} layers{searched}; {out.stat().st_size:,} bytes."
    )
