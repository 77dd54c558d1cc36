"""`glassformer align`: which word of a sentence is which of its translation, by the model's own looks."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.line_io import WholeLines, until_stopped
from glassformer.cli.progress_counter import Counter, watched
from glassformer.cli.search_options import Model, SourceLanguage, TargetLanguage
from glassformer.cli.text_layout import columns, paragraph
from glassformer.errors import DataError, SettingsError

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer, Pair
    from glassformer.data.corpus import OneFile, TwoFiles
    from glassformer.inspection.alignment.alignment_error_rate import Links
    from glassformer.inspection.alignment.head_selection import Chosen
    from glassformer.inspection.alignment.word_alignment import Link, WordPair
    from glassformer.model import Transformer

GROUP = 256  # pairs aligned together
READ = 50_000  # pairs read to choose by, at most
BEST = 10  # heads of the table
WORDS = {"apart": True, "spaces": False}


def align(
    model: Model,
    source: Annotated[Path, typer.Option(help="Sentences, a line each; or a .tsv or .jsonl file with both sides.")],
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    gold: Annotated[
        Path | None, typer.Option(help="Links that people drew, a line a pair: 0-0 1-2, and 3?4 or 3p4 for possible.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line, with the words.")] = False,
    choose: Annotated[
        bool, typer.Option("--choose", help="Measure every head on these pairs, and keep the best with the model.")
    ] = False,
    count: Annotated[
        str | None,
        typer.Option("--words", metavar="KIND", help="apart: signs are words too (the default); spaces: as it stands."),
    ] = None,
    at_least: Annotated[float, typer.Option(min=0, max=1, help="Leave out links of a smaller share.")] = 0.0,
    both_ways: Annotated[
        bool, typer.Option("--mutual", help="Only links where the source word's best is the target word, too.")
    ] = False,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Link the words of given pairs: for each target word the source word that it looks at most.

    A line a pair, in Pharaoh's format. How well they agree with --gold, and how many are uncertain, goes to stderr.
    """
    if count is not None and count not in WORDS:
        raise SettingsError(f"--words {count!r} is neither {' nor '.join(WORDS)}.")

    from glassformer.data import corpus
    from glassformer.inspection.alignment.word_alignment import read_alignment_heads
    from glassformer.model import load_model
    from glassformer.model_location import BUILT_IN, find_model, tokenizer_of
    from glassformer.translator import in_languages

    data = corpus(source, target)
    pairs = data.check()
    directory = find_model(model)
    opened = load_model(directory)
    tokenizer = in_languages(tokenizer_of(directory), source_language, target_language)
    reader = _Reader(tokenizer, WORDS[count or "apart"], is_counted=count is not None)
    links = _gold(gold, data, pairs, reader) if gold is not None else None
    if choose:
        chosen = _chosen(opened, data, pairs, links, reader)
        typer.echo(json.dumps(_as_table(chosen), indent=2) if as_json else _shown(chosen))
        _keep(chosen, directory, built_in=model in BUILT_IN and not Path(model).is_dir())
        return
    choice = read_alignment_heads(directory, opened.config)

    def work(out: WholeLines) -> None:
        from glassformer.inspection.alignment import word_alignment
        from glassformer.inspection.alignment.alignment_error_rate import alignment_score, written

        tally = _Tally()
        found: list[list[tuple[int, int]]] = []
        with Counter("Aligned", beside_output=True, total=pairs) as counter:
            for group in _groups(data, GROUP):
                own = [reader(pair) for pair in group]
                kept = word_alignment.align(opened, own, choice, at_least, both_ways)
                tally.add(kept)
                if links is not None:
                    found += [[(link.source, link.target) for link in one] for one in kept]
                out.write(
                    json.dumps({"source": pair.source, "target": pair.target} | aligned(words, one), ensure_ascii=False)
                    if as_json
                    else written((link.source, link.target) for link in one)
                    for pair, words, one in zip(group, own, kept, strict=True)
                )
                counter.add(len(group))
        if links is not None:
            score = alignment_score(found, links)
            typer.echo(
                f"AER {score.aer:.4f}, precision {score.precision:.4f}, recall {score.recall:.4f} on {pairs:,} pairs.",
                err=True,
            )
        typer.echo(tally.said(choice.measured_by == "nothing"), err=True)

    until_stopped(work)


def aligned(pair: "WordPair", links: "Sequence[Link]") -> dict[str, Any]:
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


class _Reader:
    """Pairs of text as words with their tokens."""

    def __init__(self, tokenizer: "AnyTokenizer", apart: bool, is_counted: bool) -> None:
        self.tokenizer, self.apart = tokenizer, apart
        self.is_counted = is_counted
        """Whether it was said what counts as a word."""

    def __call__(self, pair: "Pair") -> "WordPair":
        from glassformer.inspection.alignment.word_alignment import word_pair

        encode = self.tokenizer.encode
        return word_pair(self.tokenizer, encode(pair.source, "source"), encode(pair.target, "target"), self.apart)

    def check(self, pair: "Pair", words: "WordPair", where: str) -> None:
        """Gold counts words: whoever gives it must mean the same ones, or every number after the first would lie."""
        if self.is_counted and self.apart:
            return
        between = len(pair.source.split()), len(pair.target.split())
        ours = len(words.source), len(words.target)
        if between == ours:
            return
        if self.is_counted:
            raise DataError(
                f"{where}: between spaces stand {between[0]} and {between[1]} words, but the model's tokens make "
                f"{ours[0]} and {ours[1]}."
            )
        raise DataError(
            f"{where}: between spaces stand {between[0]} and {between[1]} words, with signs apart {ours[0]} and "
            f"{ours[1]}. Say which of them the gold links count: --words spaces, or --words apart."
        )


class _Tally:
    """How many links there are, and how many of them one should not trust."""

    def __init__(self) -> None:
        self.links = self.uncertain = 0

    def add(self, kept: "Sequence[Sequence[Link]]") -> None:
        self.links += sum(map(len, kept))
        self.uncertain += sum(link.uncertain for own in kept for link in own)

    def said(self, is_unmeasured: bool) -> str:
        text = f"{self.uncertain:,} of {self.links:,} links are uncertain."
        if is_unmeasured:
            text += " No heads were chosen for this model yet: --choose measures which ones align best."
        return text


def _groups(data: "TwoFiles | OneFile", most: int) -> "Iterator[list[Pair]]":
    pairs = iter(data)
    while group := list(islice(pairs, most)):
        yield group


def _gold(path: Path, data: "TwoFiles | OneFile", pairs: int, reader: _Reader) -> "list[Links]":
    """The links of every pair, after each was found to lead from a word to a word."""
    from glassformer.data.corpus import count_lines, read_lines
    from glassformer.inspection.alignment.alignment_error_rate import read_links

    if (lines := count_lines(path)) != pairs:
        raise DataError(f"{path} has {lines:,} lines for {pairs:,} pairs: one belongs to one.")
    found = []
    for pair, line in zip(data, read_lines(path), strict=True):
        where = f"{path}, line {pair.line}"
        links, words = read_links(line, where), reader(pair)
        reader.check(pair, words, where)
        for one, other in sorted(links.possible):
            if one >= len(words.source) or other >= len(words.target):
                raise DataError(
                    f"{where}: the link {one}-{other} leads out of a pair of {len(words.source)} and "
                    f"{len(words.target)} words, counted from 0."
                )
        found.append(links)
    return found


def _chosen(
    model: "Transformer", data: "TwoFiles | OneFile", pairs: int, links: "list[Links] | None", reader: _Reader
) -> "Chosen":
    from glassformer.inspection.alignment.head_selection import choose_heads, evenly
    from glassformer.inspection.alignment.ibm_aligner import ENOUGH

    wanted = set(evenly(pairs, READ))
    read = [(number, pair) for number, pair in enumerate(watched(data, "Read")) if number in wanted]
    if links is None and len(read) < ENOUGH:
        typer.echo(
            f"{len(read):,} pairs are few to learn links from, so the choice is rough: {ENOUGH:,} or more are better, "
            "or links that people drew (--gold).",
            err=True,
        )
    with Counter("Measuring every head,"):
        own = None if links is None else [links[number] for number, _ in read]
        return choose_heads(model, [reader(pair) for _, pair in read], own)


def _as_table(chosen: "Chosen") -> dict[str, Any]:
    singles = [look.model_dump() | {"aer": round(aer, 6)} for look, aer in chosen.singles]
    return {"choice": chosen.choice.model_dump(), "singles": singles, "simple_rule_aer": round(chosen.simple, 6)}


def _shown(chosen: "Chosen") -> str:
    rows = [("layer", "head", "when the word is", "AER")]
    rows += [(str(look.layer), str(look.head), look.when, f"{aer:.4f}") for look, aer in chosen.singles[:BEST]]
    choice = chosen.choice
    by = "links that people drew" if choice.measured_by == "gold" else "links learned from the sentences"
    heads = "; ".join(map(str, choice.looks))
    return "\n\n".join(
        [
            f"The best single heads on {choice.pairs:,} pairs, by {by}",
            columns(rows, "rrlr"),
            paragraph(
                f"Chosen: {heads}. AER {choice.aer:.4f}; the mean over the layer below the last has "
                f"{chosen.simple:.4f}. A link is uncertain where the look's spread is above {choice.warn_above:.2f}."
            ),
        ]
    )


def _keep(chosen: "Chosen", directory: Path, built_in: bool) -> None:
    from glassformer.inspection.alignment.word_alignment import FILE, write_alignment_heads

    if built_in:
        typer.echo("A built-in model keeps the choice that it came with: copy it to choose another.", err=True)
        return
    write_alignment_heads(chosen.choice, directory)
    typer.echo(f"Kept in {directory / FILE}.", err=True)
