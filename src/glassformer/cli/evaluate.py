"""`glassformer evaluate`: BLEU, chrF and TER of a model on a test set, with a significance test against another."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from glassformer.cli.common import search_options as shared
from glassformer.cli.common.line_io import groups_of, one_line
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.errors import DataError, SettingsError
from glassformer.text_layout import columns, paragraph

if TYPE_CHECKING:
    from glassformer.decoding import SearchSettings
    from glassformer.engine import EngineDescription, EngineOptions
    from glassformer.evaluation import MetricScore, Tokenization

SENTENCES_PER_GROUP = 1024  # translated together


def evaluate(
    model: shared.Model,
    source: shared.SourceFile,
    reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Reference translations, line by line.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODEL|FILE", help="Compare with another model, or with a file of translations."),
    ] = None,
    beam: shared.BeamSize = 4,
    length_penalty: shared.LengthPenalty = 1.0,
    tokenize: Annotated[
        str,
        typer.Option(metavar="NAME", help="sacrebleu's tokenizer for BLEU; none for text that is already tokenised."),
    ] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the translations to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
    split_at: shared.SplitAt = 512,
    engine: shared.EngineName = "fast",
    device: shared.DeviceOption = "cpu",
    precision: shared.PrecisionName = "float32",
    shortlist: shared.UseShortlist = None,
) -> None:
    """Score a model on a test set: BLEU, chrF and TER with sacrebleu's signatures.

    With --against, also whether the difference is significant (paired bootstrap).
    """
    from glassformer.atomic_directory import replace_file
    from glassformer.data import corpus
    from glassformer.decoding import Beam
    from glassformer.evaluation import TOKENIZATIONS, measure
    from glassformer.extras import require

    require("sacrebleu")

    if tokenize not in TOKENIZATIONS:
        raise SettingsError(
            f"--tokenize {tokenize!r} is not a sacrebleu tokenizer; choose one of {', '.join(TOKENIZATIONS)}."
        )
    data = corpus(source, reference, "--reference")
    data.check()
    pairs = list(data)
    search = Beam(size=beam, length_penalty=length_penalty)
    texts = [pair.source for pair in pairs]
    names = [model] if against is None else [against, model]
    options = shared.engine_from(engine, precision, shortlist=shortlist, device=device)
    engines: dict[str, EngineDescription] = {}
    systems = [_translations(name, texts, search, options, split_at, engines) for name in names]
    if out is not None:
        replace_file(out, "".join(f"{text}\n" for text in systems[-1]).encode())
    scores = measure(systems, [pair.target for pair in pairs], cast("Tokenization", tokenize), lowercase)
    if as_json:
        table = {
            name: {
                "scores": [asdict(score) for score in of_system],
                "engine": asdict(engines[name]) if name in engines else None,
            }
            for name, of_system in zip(names, scores, strict=True)
        }
        typer.echo(json.dumps(table, indent=2))
    else:
        typer.echo(_table(names, scores, len(pairs)))


def _translations(
    name: str,
    texts: list[str],
    search: "SearchSettings",
    engine: "EngineOptions",
    split_at: int,
    engines: "dict[str, EngineDescription]",
) -> list[str]:
    """The translations of a model, whose engine is added to `engines`, or the lines of a file."""
    from glassformer.data.corpus import read_lines
    from glassformer.engine import describe_engine
    from glassformer.interop.format_detection import is_model_file
    from glassformer.loading import load

    if Path(name).is_file() and not is_model_file(Path(name)):
        lines = list(read_lines(Path(name)))
        if len(lines) != len(texts):
            raise DataError(
                f"{name} has {len(lines):,} lines, but the test set (--source) has {len(texts):,}. Expected one "
                "translation per line, in the same order."
            )
        return lines
    translations: list[str] = []
    with ProgressCounter(f"Translated by {name}:", total=len(texts)) as counter:
        translator = load(name, search=search, engine=engine, max_tokens=split_at)
        shared.report_device(engine.device, translator)
        engines[name] = describe_engine(translator.engine)
        for group in groups_of(texts, SENTENCES_PER_GROUP):
            translations += map(one_line, translator.translate(group))
            counter.add(len(group))
    return translations


def _table(names: list[str], scores: "list[list[MetricScore]]", sentences: int) -> str:
    rows = [("", *(score.metric for score in scores[0]))]
    for name, of_system in zip(names, scores, strict=True):
        rows.append((name, *map(_number, of_system)))
    if len(names) == 2:
        rows.append(("p", *(f"{score.p_value:.4f}" for score in scores[1])))
    signatures = columns((score.metric, score.signature) for score in scores[0])
    verdict = [paragraph(_verdict(names, scores[1]))] if len(names) == 2 else []
    return "\n\n".join([f"{sentences:,} sentences", columns(rows, "lrrr"), signatures, *verdict])


def _number(score: "MetricScore") -> str:
    return f"{score.score:.2f}" if score.interval is None else f"{score.score:.2f} ± {score.interval:.2f}"


def _verdict(names: list[str], scores: "list[MetricScore]") -> str:
    significant = [score.metric for score in scores if score.p_value is not None and score.p_value < 0.05]
    if not significant:
        return f"No significant difference between {names[1]} and {names[0]} (p >= 0.05)."
    return f"{names[1]} differs significantly from {names[0]} in {' and '.join(significant)} (p < 0.05)."
