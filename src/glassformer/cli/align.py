"""`glassformer align`: word alignment of sentence pairs from the model's cross-attention."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.line_io import WholeLineWriter, groups_of, run_until_signal
from glassformer.cli.common.progress_counter import ProgressCounter, with_progress
from glassformer.cli.common.search_options import Model, SourceFile, SourceLanguage, TargetLanguage, TranslationFile
from glassformer.cli.translate import alignment_json
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer
    from glassformer.data.corpus import OneFile, TwoFiles
    from glassformer.inspection.alignment.alignment_error_rate import Links
    from glassformer.inspection.alignment.gold_links import WordSplitter
    from glassformer.inspection.alignment.head_selection import HeadSelection
    from glassformer.loading import OpenedModel
    from glassformer.model import Transformer

PAIRS_PER_GROUP = 256  # aligned together
MAX_PAIRS_TO_CHOOSE_BY = 50_000
WORD_KINDS = {"apart": True, "spaces": False}  # whether punctuation is separate words


def align(
    model: Model,
    source: SourceFile,
    target: TranslationFile = None,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Gold links, one line per pair: 0-0 1-2 sure, 3?4 or 3p4 possible."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per pair, with its words.")] = False,
    choose: Annotated[
        bool, typer.Option("--choose", help="Measure every head on these pairs, and save the best with the model.")
    ] = False,
    word_kind: Annotated[
        str | None,
        typer.Option(
            "--words",
            metavar="KIND",
            help="Word boundaries: apart (the default) separates punctuation, spaces splits at spaces only.",
        ),
    ] = None,
    at_least: Annotated[
        float, typer.Option(min=0, max=1, metavar="WEIGHT", help="Leave out links with less attention weight.")
    ] = 0.0,
    both_ways: Annotated[
        bool, typer.Option("--mutual", help="Keep only links where each word is the other's best match.")
    ] = False,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Align the words of sentence pairs by the model's cross-attention.

    Prints one line of links per pair, in Pharaoh format (0-0 1-2). The number of uncertain links, and with --gold the
    alignment error rate, go to stderr.
    """
    if word_kind is not None and word_kind not in WORD_KINDS:
        raise SettingsError(f"Unknown --words {word_kind!r}; choose {' or '.join(WORD_KINDS)}.")

    from glassformer.data import corpus
    from glassformer.decoding.alignment_choice import read_alignment_heads
    from glassformer.inspection.alignment import alignment_report as report
    from glassformer.inspection.alignment.gold_links import WordSplitter, read_gold_links
    from glassformer.loading import load, open_model

    data = corpus(source, target, "--target")
    pair_count = data.check()

    def words_and_gold(tokenizer: "AnyTokenizer") -> "tuple[WordSplitter, list[Links] | None]":
        to_words = WordSplitter(tokenizer, WORD_KINDS[word_kind or "apart"], is_kind_given=word_kind is not None)
        return to_words, None if gold is None else read_gold_links(gold, data, pair_count, to_words)

    if choose:
        opened = open_model(model, source_language=source_language, target_language=target_language)
        to_words, gold_links = words_and_gold(opened.text_tokenizer)
        selection = _choose_heads(opened.model, data, pair_count, gold_links, to_words)
        typer.echo(
            json.dumps(report.selection_json(selection), indent=2) if as_json else report.selection_text(selection)
        )
        _save_selection(selection, opened)
        return
    translator = load(model, source_language=source_language, target_language=target_language)
    to_words, gold_links = words_and_gold(translator.text_tokenizer)
    heads = read_alignment_heads(translator.directory, translator.config)

    def work(out: WholeLineWriter) -> None:
        from glassformer.inspection.alignment.alignment_error_rate import alignment_score, written

        tally = report.LinkCounts()
        predicted: list[list[tuple[int, int]]] = []
        with ProgressCounter("Aligned", beside_output=True, total=pair_count) as counter:
            for group in groups_of(data, PAIRS_PER_GROUP):
                word_pairs = [to_words(pair) for pair in group]
                alignments = translator.align(word_pairs, heads, at_least, both_ways)
                tally.add(alignments)
                if gold_links is not None:
                    predicted += [[(link.source, link.target) for link in links] for links in alignments]
                if as_json:
                    tables = (
                        {"source": pair.source, "target": pair.target} | alignment_json(words, links)
                        for pair, words, links in zip(group, word_pairs, alignments, strict=True)
                    )
                    out.write(json.dumps(table, ensure_ascii=False) for table in tables)
                else:
                    out.write(written((link.source, link.target) for link in links) for links in alignments)
                counter.add(len(group))
        if gold_links is not None:
            score = alignment_score(predicted, gold_links)
            scores = f"AER {score.aer:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f}"
            typer.echo(f"{scores} on {pair_count:,} pairs.", err=True)
        typer.echo(tally.summary(is_unmeasured=heads.measured_by == "nothing"), err=True)

    run_until_signal(work)


def _choose_heads(
    model: "Transformer",
    data: "TwoFiles | OneFile",
    pair_count: int,
    gold_links: "list[Links] | None",
    to_words: "WordSplitter",
) -> "HeadSelection":
    from glassformer.inspection.alignment.head_selection import choose_heads, evenly
    from glassformer.inspection.alignment.ibm_aligner import ENOUGH_PAIRS

    numbers = set(evenly(pair_count, MAX_PAIRS_TO_CHOOSE_BY))
    sample = [(number, pair) for number, pair in enumerate(with_progress(data, "Read")) if number in numbers]
    if gold_links is None and len(sample) < ENOUGH_PAIRS:
        typer.echo(
            f"{ENOUGH_PAIRS:,} or more pairs are needed to learn links well; these are {len(sample):,}, so the "
            "selection of heads is rough. Give more pairs, or gold links (--gold).",
            err=True,
        )
    with ProgressCounter("Measuring every head,"):
        sample_links = None if gold_links is None else [gold_links[number] for number, _ in sample]
        return choose_heads(model, [to_words(pair) for _, pair in sample], sample_links)


def _save_selection(selection: "HeadSelection", opened: "OpenedModel") -> None:
    from glassformer.decoding.alignment_choice import FILE, write_alignment_heads

    if opened.directory is None:
        outcome = f"The heads are not saved, because {opened.name} is not a Glassformer model: `convert` it first."
    elif opened.is_built_in:
        outcome = "The heads of a built-in model are not changed: copy the model directory to select others."
    else:
        write_alignment_heads(selection.choice, opened.directory)
        outcome = f"Saved in {opened.directory / FILE}."
    typer.echo(outcome, err=True)
