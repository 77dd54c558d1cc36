"""`glassformer convert`: another program's model as a Glassformer model directory."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import AllowPickle, SourceLanguage, TargetLanguage


def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="Another program's model: a directory or a file.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="Model directory to create.")],
    allow_pickle: AllowPickle = False,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    heads: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of attention heads, for pytorch-seq2seq files, which do not record it."
        ),
    ] = None,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist/--no-shortlist", help="Copy the model's shortlist into the new directory, if it has one."
        ),
    ] = True,
    sample: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Source sentences on which the model's shortlist is measured, one per line."),
    ] = None,
    sample_reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Reference translations of --sample, line by line.")
    ] = None,
) -> None:
    """Convert another program's model to a Glassformer model directory.

    The format is detected from the files: Hugging Face (Marian, Pegasus, M2M100, NLLB, BART, mBART, T5, umT5, ByT5),
    Marian and Firefox, fairseq, and the pytorch-seq2seq tutorial.
    """
    from glassformer.conversion import convert as convert_model

    with ProgressCounter("Converting,"):
        converted = convert_model(
            source,
            target,
            allow_pickle=allow_pickle,
            source_language=source_language,
            target_language=target_language,
            heads=heads,
            shortlist=shortlist,
            sample=sample,
            sample_reference=sample_reference,
        )
    config = converted.config
    typer.echo(
        f"{converted.family}: {config.encoder_layers} + {config.decoder_layers} layers, "
        f"{converted.weights.n_parameters:,} parameters, {config.vocab_size:,} tokens."
    )
    for note in converted.notes:
        typer.echo(note)
    if converted.shortlist is not None:
        from glassformer.shortlist_making import measurement_text

        typer.echo(measurement_text(converted.shortlist))
    typer.echo(f"Written to {target}.")
    if converted.has_tokenizer:
        typer.echo(f'Try it: glassformer translate {target} "..."')
