"""`glassformer align`: word alignment of sentence pairs from the model's cross-attention."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.line_io import WholeLineWriter, run_until_signal
from glassformer.cli.progress_counter import ProgressCounter, with_progress
from glassformer.cli.search_options import Model, SourceLanguage, TargetLanguage
from glassformer.cli.text_layout import columns, paragraph
from glassformer.errors import DataError, SettingsError

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer, Pair
    from glassformer.data.corpus import OneFile, TwoFiles
    from glassformer.inspection.alignment.alignment_error_rate import Links
    from glassformer.inspection.alignment.head_selection import HeadSelection
    from glassformer.inspection.alignment.word_alignment import Link, WordPair
    from glassformer.model import Transformer

PAIRS_PER_GROUP = 256  # aligned together
MAX_PAIRS_TO_CHOOSE_BY = 50_000
HEADS_SHOWN = 10
WORD_KINDS = {"apart": True, "spaces": False}  # whether punctuation is separate words


def align(
    model: Model,
    source: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Source sentences, one per line; or a .tsv or .jsonl file with both sides."),
    ],
    target: Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations, line by line.")] = None,
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
        raise SettingsError(f"--words {word_kind!r} is neither {' nor '.join(WORD_KINDS)}.")

    from glassformer.data import corpus
    from glassformer.inspection.alignment.word_alignment import read_alignment_heads
    from glassformer.model import load_model
    from glassformer.model_location import BUILT_IN, find_model, tokenizer_of
    from glassformer.translator import in_languages

    data = corpus(source, target)
    pair_count = data.check()
    directory = find_model(model)
    transformer = load_model(directory)
    tokenizer = in_languages(tokenizer_of(directory), source_language, target_language)
    to_words = _WordSplitter(tokenizer, WORD_KINDS[word_kind or "apart"], is_kind_given=word_kind is not None)
    gold_links = _read_gold(gold, data, pair_count, to_words) if gold is not None else None
    if choose:
        selection = _choose_heads(transformer, data, pair_count, gold_links, to_words)
        typer.echo(json.dumps(_selection_json(selection), indent=2) if as_json else _selection_text(selection))
        _save_selection(selection, directory, built_in=model in BUILT_IN and not Path(model).is_dir())
        return
    heads = read_alignment_heads(directory, transformer.config)

    def work(out: WholeLineWriter) -> None:
        from glassformer.inspection.alignment import word_alignment
        from glassformer.inspection.alignment.alignment_error_rate import alignment_score, written

        tally = _LinkTally()
        predicted: list[list[tuple[int, int]]] = []
        with ProgressCounter("Aligned", beside_output=True, total=pair_count) as counter:
            for group in _groups(data, PAIRS_PER_GROUP):
                word_pairs = [to_words(pair) for pair in group]
                alignments = word_alignment.align(transformer, word_pairs, heads, at_least, both_ways)
                tally.add(alignments)
                if gold_links is not None:
                    predicted += [[(link.source, link.target) for link in links] for links in alignments]
                out.write(
                    json.dumps(
                        {"source": pair.source, "target": pair.target} | alignment_json(words, links),
                        ensure_ascii=False,
                    )
                    if as_json
                    else written((link.source, link.target) for link in links)
                    for pair, words, links in zip(group, word_pairs, alignments, strict=True)
                )
                counter.add(len(group))
        if gold_links is not None:
            score = alignment_score(predicted, gold_links)
            typer.echo(
                f"AER {score.aer:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f} on "
                f"{pair_count:,} pairs.",
                err=True,
            )
        typer.echo(tally.summary(is_unmeasured=heads.measured_by == "nothing"), err=True)

    run_until_signal(work)


def alignment_json(pair: "WordPair", links: "Sequence[Link]") -> dict[str, Any]:
    """A pair's words and links, for JSON."""
    source, target = pair.texts
    return {
        "source_words": source,
        "target_words": target,
        "alignment": [
            {"source": link.source, "target": link.target, "weight": round(link.weight, 4)}
            | ({"uncertain": True} if link.uncertain else {})
            for link in links
        ],
    }


class _WordSplitter:
    """Turns a pair of texts into words with their tokens."""

    def __init__(self, tokenizer: "AnyTokenizer", apart: bool, is_kind_given: bool) -> None:
        self.tokenizer, self.apart = tokenizer, apart
        self.is_kind_given = is_kind_given
        """Whether the user said what counts as a word."""

    def __call__(self, pair: "Pair") -> "WordPair":
        from glassformer.inspection.alignment.word_alignment import word_pair

        encode = self.tokenizer.encode
        return word_pair(self.tokenizer, encode(pair.source, "source"), encode(pair.target, "target"), self.apart)

    def check(self, pair: "Pair", words: "WordPair", where: str) -> None:
        """Gold links are numbers of words: they must count the same words as we do, or all later links are wrong."""
        if self.is_kind_given and self.apart:
            return
        by_spaces = len(pair.source.split()), len(pair.target.split())
        ours = len(words.source), len(words.target)
        if by_spaces == ours:
            return
        if self.is_kind_given:
            raise DataError(
                f"{where}: split at spaces there are {by_spaces[0]} and {by_spaces[1]} words, but the model's tokens "
                f"form {ours[0]} and {ours[1]}."
            )
        raise DataError(
            f"{where}: split at spaces there are {by_spaces[0]} and {by_spaces[1]} words, with punctuation separated "
            f"{ours[0]} and {ours[1]}. Which of them do the gold links count: --words spaces or --words apart?"
        )


class _LinkTally:
    """Counts links, and those of them that are uncertain."""

    def __init__(self) -> None:
        self.links = self.uncertain = 0

    def add(self, alignments: "Sequence[Sequence[Link]]") -> None:
        self.links += sum(map(len, alignments))
        self.uncertain += sum(link.uncertain for links in alignments for link in links)

    def summary(self, is_unmeasured: bool) -> str:
        text = f"{self.uncertain:,} of {self.links:,} links are uncertain."
        if is_unmeasured:
            text += " No heads were chosen for this model yet: --choose measures which ones align best."
        return text


def _groups(data: "TwoFiles | OneFile", size: int) -> "Iterator[list[Pair]]":
    pairs = iter(data)
    while group := list(islice(pairs, size)):
        yield group


def _read_gold(path: Path, data: "TwoFiles | OneFile", pair_count: int, to_words: _WordSplitter) -> "list[Links]":
    """The gold links of every pair, each checked to connect two words that exist."""
    from glassformer.data.corpus import count_lines, read_lines
    from glassformer.inspection.alignment.alignment_error_rate import read_links

    if (lines := count_lines(path)) != pair_count:
        raise DataError(f"{path} has {lines:,} lines for {pair_count:,} pairs; expected one line per pair.")
    gold_links = []
    for pair, line in zip(data, read_lines(path), strict=True):
        where = f"{path}, line {pair.line}"
        links, words = read_links(line, where), to_words(pair)
        to_words.check(pair, words, where)
        for source, target in sorted(links.possible):
            if source >= len(words.source) or target >= len(words.target):
                raise DataError(
                    f"{where}: the link {source}-{target} is out of range for a pair of {len(words.source)} and "
                    f"{len(words.target)} words, numbered from 0."
                )
        gold_links.append(links)
    return gold_links


def _choose_heads(
    model: "Transformer",
    data: "TwoFiles | OneFile",
    pair_count: int,
    gold_links: "list[Links] | None",
    to_words: _WordSplitter,
) -> "HeadSelection":
    from glassformer.inspection.alignment.head_selection import choose_heads, evenly
    from glassformer.inspection.alignment.ibm_aligner import ENOUGH_PAIRS

    numbers = set(evenly(pair_count, MAX_PAIRS_TO_CHOOSE_BY))
    sample = [(number, pair) for number, pair in enumerate(with_progress(data, "Read")) if number in numbers]
    if gold_links is None and len(sample) < ENOUGH_PAIRS:
        typer.echo(
            f"{len(sample):,} pairs are few to learn links from, so the choice of heads is rough: give "
            f"{ENOUGH_PAIRS:,} or more, or gold links (--gold).",
            err=True,
        )
    with ProgressCounter("Measuring every head,"):
        sample_links = None if gold_links is None else [gold_links[number] for number, _ in sample]
        return choose_heads(model, [to_words(pair) for _, pair in sample], sample_links)


def _selection_json(selection: "HeadSelection") -> dict[str, Any]:
    singles = [head.model_dump() | {"aer": round(aer, 6)} for head, aer in selection.singles]
    return {"choice": selection.choice.model_dump(), "singles": singles, "simple_rule_aer": round(selection.simple, 6)}


def _selection_text(selection: "HeadSelection") -> str:
    rows = [("layer", "head", "target token is", "AER")]
    rows += [
        (str(head.layer), str(head.head), head.when, f"{aer:.4f}") for head, aer in selection.singles[:HEADS_SHOWN]
    ]
    choice = selection.choice
    measured_on = "gold links" if choice.measured_by == "gold" else "links learned from the sentences"
    heads = "; ".join(map(str, choice.looks))
    return "\n\n".join(
        [
            f"The best single heads on {choice.pairs:,} pairs, measured on {measured_on}",
            columns(rows, "rrlr"),
            paragraph(
                f"Chosen: {heads}. AER {choice.aer:.4f}; the mean over the heads of the second-to-last layer has "
                f"{selection.simple:.4f}. A link is uncertain where the entropy of its attention weights, from 0 to 1, "
                f"is above {choice.warn_above:.2f}."
            ),
        ]
    )


def _save_selection(selection: "HeadSelection", directory: Path, built_in: bool) -> None:
    from glassformer.inspection.alignment.word_alignment import FILE, write_alignment_heads

    if built_in:
        typer.echo("The heads of a built-in model stay as they are: copy the model to choose others.", err=True)
        return
    write_alignment_heads(selection.choice, directory)
    typer.echo(f"Saved in {directory / FILE}.", err=True)
