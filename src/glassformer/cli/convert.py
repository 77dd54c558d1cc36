"""`glassformer convert`: another program's model as a model directory of ours."""

from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A directory or file of another program's.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="The model directory to make.")],
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read files of torch.save (.pt); nothing in them is run.")
    ] = False,
    source_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="The language that will be translated from, if there are many.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="The language that will be translated to, if there are many.")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, help="How many heads it has; for the tutorial's files, which do not say.")
    ] = None,
) -> None:
    """Open another program's model and keep it as one of ours.

    Whose it is is seen from the files: Hugging Face's Marian, Pegasus, M2M100, NLLB, BART, mBART, T5; Marian's own
    and Firefox's; fairseq's; the tutorial's of pytorch-seq2seq.
    """
    from glassformer.atomic_directory import building, refuse_existing
    from glassformer.interop.detect import open_foreign
    from glassformer.interop.model_card import card
    from glassformer.model.directory import write_model

    refuse_existing(target)
    opened = open_foreign(
        source,
        allow_pickle=allow_pickle,
        source_language=source_language,
        target_language=target_language,
        heads=heads,
    )
    tokenizer = opened.tokenizer
    origin = f"{opened.family}, `{source.name}`"
    use = "ids" if tokenizer is None else "glassformer"
    with building(target) as aside:
        write_model(opened.model, aside)
        if tokenizer is not None:
            tokenizer.write(aside / "tokenizer")
        facts = {"note": " ".join(opened.notes)} if opened.notes else {}
        (aside / "README.md").write_text(card(opened.model, "A converted model", origin, use, facts), encoding="utf-8")
    config = opened.model.config
    typer.echo(
        f"{opened.family}: {config.encoder_layers} + {config.decoder_layers} layers, {opened.model.n_parameters:,} "
        f"parameters, {config.vocab_size:,} tokens."
    )
    for note in opened.notes:
        typer.echo(note)
    typer.echo(f"It is now in {target}.")
    if tokenizer is not None:
        typer.echo(f'Try it: glassformer translate {target} "..."')
