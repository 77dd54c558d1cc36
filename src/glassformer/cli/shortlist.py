"""`glassformer shortlist`: a vocabulary shortlist from a model's word alignment, measured and saved with the model."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.line_io import groups_of
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import Model, SourceFile, TranslationFile
from glassformer.errors import DataError, InputError

if TYPE_CHECKING:
    from glassformer.data.corpus import OneFile, TwoFiles
    from glassformer.decoding import Shortlist
    from glassformer.translator import Translator

MAX_PAIRS = 200_000  # aligned; more take long, and change little
MAX_SAMPLE_PAIRS = 500
MIN_PAIRS = 20


def shortlist(
    model: Model,
    source: SourceFile,
    target: TranslationFile = None,
    frequent: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of most frequent target tokens in every sentence's list.")
    ] = 100,
    best: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Number of target tokens per source token, the most often aligned."),
    ] = 100,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Measure the model's shortlist on these pairs, and replace its stored measurement."
        ),
    ] = False,
) -> None:
    """Make a vocabulary shortlist for a model from sentence pairs, and save it in the model directory.

    The pairs are aligned by the model's cross-attention. Some are held out: on these, BLEU and speed are measured with
    and without the shortlist. It is used by default if it costs at most 0.3 BLEU.
    """
    from glassformer.data import corpus
    from glassformer.engine import EngineOptions
    from glassformer.engine.shortlist_file import FILE, add_shortlist
    from glassformer.extras import require
    from glassformer.loading import load, open_model
    from glassformer.shortlist_making import measure_shortlist, measurement_text, sample_numbers

    require("sacrebleu")
    data = corpus(source, target, "--target")
    pair_count = data.check()
    opened = open_model(model)
    directory = opened.directory
    if directory is None or opened.is_built_in:
        if opened.is_built_in:
            raise InputError(f"{opened.name} is built in and cannot be changed: copy {directory}, and give the copy.")
        raise InputError(
            f"{opened.name} is another program's model: `glassformer convert` it, and give the new directory."
        )
    sample = sample_numbers(pair_count, MAX_SAMPLE_PAIRS if measure else min(MAX_SAMPLE_PAIRS, pair_count // 10))
    translator = load(model, engine=EngineOptions(shortlist=False))
    if measure:
        made = opened.read_shortlist() if opened.read_shortlist is not None else None
        if made is None:
            raise InputError(f"{opened.name} has no shortlist: leave out --measure to make one.")
    else:
        made = _make(translator, data, pair_count, sample, frequent, best)
    held_out = [pair for number, pair in enumerate(data) if number in sample and pair.has_text]
    with ProgressCounter("Measuring the shortlist,"):
        sources, references = [pair.source for pair in held_out], [pair.target for pair in held_out]
        made = replace(made, measurement=measure_shortlist(translator, made, sources, references))
    add_shortlist(directory, made)
    typer.echo(measurement_text(made))
    typer.echo(f"Saved in {directory / FILE}.")


def _make(
    translator: "Translator", data: "TwoFiles | OneFile", pair_count: int, sample: set[int], frequent: int, best: int
) -> "Shortlist":
    """Make a shortlist from all pairs but the sample."""
    from glassformer.decoding.alignment_choice import read_alignment_heads
    from glassformer.shortlist_making import PAIRS_PER_GROUP, AlignedTokens, encoded, sample_numbers
    from glassformer.translator import MAX_SOURCE_TOKENS

    if pair_count < MIN_PAIRS:
        raise DataError(f"There are {pair_count:,} pairs: give at least {MIN_PAIRS}, better many thousands.")
    config, tokenizer = translator.config, translator.text_tokenizer
    heads = read_alignment_heads(translator.directory, config)
    if heads.measured_by == "nothing":
        typer.echo(
            "The model's alignment heads were not selected by measurement: `glassformer align --choose` makes its "
            "alignment, and this shortlist, better.",
            err=True,
        )
    counts = AlignedTokens(translator, heads)
    numbers = sample_numbers(pair_count, MAX_PAIRS) - sample
    chosen = (pair for number, pair in enumerate(data) if number in numbers and pair.has_text)
    max_tokens = min(MAX_SOURCE_TOKENS, config.max_tokens or MAX_SOURCE_TOKENS)
    with ProgressCounter("Aligned", total=len(numbers)) as counter:
        for group in groups_of(chosen, PAIRS_PER_GROUP):
            counts.add(encoded(tokenizer, ((pair.source, pair.target) for pair in group), max_tokens))
            counter.add(len(group))
    return counts.shortlist(frequent, best)
