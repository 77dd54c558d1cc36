"""`glassformer evaluate`: translate a test set and score it, alone or beside another."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from glassformer.cli.line_io import one_line
from glassformer.cli.progress_counter import Counter
from glassformer.cli.search_options import (
    BeamSize,
    EngineName,
    LengthPenalty,
    Model,
    PrecisionName,
    SplitAt,
    engine_from,
)
from glassformer.cli.text_layout import columns, paragraph
from glassformer.errors import DataError, SettingsError

if TYPE_CHECKING:
    from glassformer.decoding import SearchSettings
    from glassformer.engine import EngineOptions
    from glassformer.evaluation import Measured, Tokenization

GROUP = 1024


def evaluate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Sentences, a line each; or a .tsv or .jsonl file with both sides.")],
    reference: Annotated[Path | None, typer.Option(help="Their translations by people, line by line.")] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODEL|FILE", help="Another model or a file of translations to compare with."),
    ] = None,
    beam: BeamSize = 4,
    length_penalty: LengthPenalty = 1.0,
    tokenize: Annotated[str, typer.Option(help="sacrebleu's for BLEU; none for text that is tokens.")] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Do not tell upper from lower case.")] = False,
    out: Annotated[Path | None, typer.Option(help="Keep the translations in this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON, for programs.")] = False,
    split_at: SplitAt = 512,
    engine: EngineName = "fast",
    precision: PrecisionName = "float32",
) -> None:
    """Score a model's translations: BLEU, chrF and TER with sacrebleu's signatures.

    With --against, also whether the difference could be chance, by a paired bootstrap.
    """
    from glassformer.atomic_directory import replace_file
    from glassformer.data import corpus
    from glassformer.decoding import Beam
    from glassformer.evaluation import TOKENIZATIONS, measure

    if tokenize not in TOKENIZATIONS:
        raise SettingsError(f"--tokenize {tokenize!r} is none of sacrebleu's: {', '.join(TOKENIZATIONS)}.")
    data = corpus(source, reference)
    data.check()
    pairs = list(data)
    search = Beam(size=beam, length_penalty=length_penalty)
    texts = [pair.source for pair in pairs]
    names = [model] if against is None else [against, model]
    options = engine_from(engine, precision)
    systems = [_translations(name, texts, search, options, split_at) for name in names]
    if out is not None:
        replace_file(out, "".join(f"{text}\n" for text in systems[-1]).encode())
    measured = measure(systems, [pair.target for pair in pairs], cast("Tokenization", tokenize), lowercase)
    if as_json:
        table = {name: [asdict(one) for one in own] for name, own in zip(names, measured, strict=True)}
        typer.echo(json.dumps(table, indent=2))
    else:
        typer.echo(_shown(names, measured, len(pairs)))


def _translations(
    name: str, texts: list[str], search: "SearchSettings", engine: "EngineOptions", split_at: int
) -> list[str]:
    """A model's translations, or those that stand in a file."""
    from glassformer.data.corpus import read_lines
    from glassformer.translator import Translator

    if Path(name).is_file():
        lines = list(read_lines(Path(name)))
        if len(lines) != len(texts):
            raise DataError(f"{name} has {len(lines):,} lines for {len(texts):,} sentences: one belongs to one.")
        return lines
    translator = Translator.load(name, search=search, engine=engine, max_tokens=split_at)
    done: list[str] = []
    with Counter(f"Translated by {name}:") as counter:
        for start in range(0, len(texts), GROUP):
            done += map(one_line, translator.translate(texts[start : start + GROUP]))
            counter.add(min(GROUP, len(texts) - start))
    return done


def _shown(names: list[str], measured: "list[list[Measured]]", sentences: int) -> str:
    rows = [("", *(one.metric for one in measured[0]))]
    for name, own in zip(names, measured, strict=True):
        rows.append((name, *(_number(one) for one in own)))
    if len(names) == 2:
        rows.append(("p", *(f"{one.p_value:.4f}" for one in measured[1])))
    signatures = columns((one.metric, one.signature) for one in measured[0])
    verdict = [paragraph(_verdict(names, measured[1]))] if len(names) == 2 else []
    return "\n\n".join([f"{sentences:,} sentences", columns(rows, "lrrr"), signatures, *verdict])


def _number(one: "Measured") -> str:
    return f"{one.score:.2f}" if one.interval is None else f"{one.score:.2f} ± {one.interval:.2f}"


def _verdict(names: list[str], measured: "list[Measured]") -> str:
    differ = [one.metric for one in measured if one.p_value is not None and one.p_value < 0.05]
    if not differ:
        return f"Nothing says that {names[1]} and {names[0]} differ: chance may part them as far (p >= 0.05)."
    return f"{names[1]} differs from {names[0]} in {' and '.join(differ)} by more than chance would (p < 0.05)."
