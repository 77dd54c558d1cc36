"""`glassformer convert`: another program's model as a Glassformer model directory."""

from pathlib import Path
from typing import Annotated

import typer

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
) -> None:
    """Convert another program's model to a Glassformer model directory.

    The format is detected from the files: Hugging Face (Marian, Pegasus, M2M100, NLLB, BART, mBART, T5), Marian and
    Firefox, fairseq, and the pytorch-seq2seq tutorial.
    """
    from glassformer.atomic_directory import building, refuse_existing
    from glassformer.interop.format_detection import open_imported
    from glassformer.interop.model_card import card
    from glassformer.model.directory import write_model

    refuse_existing(target)
    imported = open_imported(
        source,
        allow_pickle=allow_pickle,
        source_language=source_language,
        target_language=target_language,
        heads=heads,
    )
    tokenizer = imported.tokenizer
    origin = f"{imported.family}, `{source.name}`"
    use = "ids" if tokenizer is None else "glassformer"
    with building(target) as unfinished:
        write_model(imported.model, unfinished)
        if tokenizer is not None:
            tokenizer.write(unfinished / "tokenizer")
        facts = {"note": " ".join(imported.notes)} if imported.notes else {}
        readme = card(imported.model, "A converted model", origin, use, facts)
        (unfinished / "README.md").write_text(readme, encoding="utf-8")
    config = imported.model.config
    typer.echo(
        f"{imported.family}: {config.encoder_layers} + {config.decoder_layers} layers, "
        f"{imported.model.n_parameters:,} parameters, {config.vocab_size:,} tokens."
    )
    for note in imported.notes:
        typer.echo(note)
    typer.echo(f"Written to {target}.")
    if tokenizer is not None:
        typer.echo(f'Try it: glassformer translate {target} "..."')
