"""`glassformer convert`: another program's model as a Glassformer model directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import AllowPickle, SourceLanguage, TargetLanguage
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.decoding import Shortlist
    from glassformer.interop.imported_model import ImportedModel


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
    from glassformer.atomic_directory import building, refuse_existing
    from glassformer.engine.shortlist_file import FILE, shortlist_bytes
    from glassformer.interop.format_detection import open_imported
    from glassformer.interop.model_card import card
    from glassformer.model.directory import write_model

    if sample_reference is not None and sample is None:
        raise SettingsError("--sample-reference has no effect without --sample: add --sample.")
    refuse_existing(target)
    languages = {"source_language": source_language, "target_language": target_language}
    with ProgressCounter("Reading the model,"):
        imported = open_imported(source, allow_pickle=allow_pickle, heads=heads, **languages)
    tokenizer = imported.tokenizer
    with ProgressCounter("Measuring the shortlist,"):
        taken = _shortlist(imported, sample, sample_reference) if shortlist else None
    origin = f"{imported.family}, `{source.name}`"
    use = "ids" if tokenizer is None else "glassformer"
    with ProgressCounter("Writing the model,"), building(target) as unfinished:
        write_model(imported.weights, unfinished)
        if tokenizer is not None:
            tokenizer.write(unfinished / "tokenizer")
        if taken is not None:
            (unfinished / FILE).write_bytes(shortlist_bytes(taken))
        facts = {"note": " ".join(imported.notes)} if imported.notes else {}
        readme = card(imported.weights, "A converted model", origin, use, facts)
        (unfinished / "README.md").write_text(readme, encoding="utf-8")
    config = imported.config
    typer.echo(
        f"{imported.family}: {config.encoder_layers} + {config.decoder_layers} layers, "
        f"{imported.weights.n_parameters:,} parameters, {config.vocab_size:,} tokens."
    )
    for note in imported.notes:
        typer.echo(note)
    if taken is not None:
        from glassformer.shortlist_making import measurement_text

        typer.echo(measurement_text(taken))
    typer.echo(f"Written to {target}.")
    if tokenizer is not None:
        typer.echo(f'Try it: glassformer translate {target} "..."')


def _shortlist(imported: "ImportedModel", sample: Path | None, reference: Path | None) -> "Shortlist | None":
    """The model's shortlist, measured if there is a sample; None if it has none."""
    from dataclasses import replace

    from glassformer.data.corpus import corpus, read_lines
    from glassformer.engine import EngineOptions, open_engine
    from glassformer.extras import require
    from glassformer.shortlist_making import measure_shortlist
    from glassformer.translator import Translator

    if imported.read_shortlist is None:
        if sample is not None:
            raise SettingsError("--sample has no effect: this model has no shortlist to measure. Leave it out.")
        return None
    shortlist = imported.read_shortlist()
    if sample is None or imported.tokenizer is None:
        return shortlist
    require("sacrebleu")
    if reference is None:
        sources, references = [line for line in read_lines(sample) if line.strip()], None
    else:
        data = corpus(sample, reference)
        data.check()
        pairs = [pair for pair in data if pair.has_text]
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translator = Translator(
        imported.weights, imported.tokenizer, engine=open_engine([imported.weights], EngineOptions())
    )
    return replace(shortlist, measurement=measure_shortlist(translator, shortlist, sources, references))
