"""Options shared by the commands that translate, and the engine options made from them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.engine import EngineOptions

LANGUAGES, SPEED = "Languages", "Speed"  # panels of the help

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Model directory, run directory, built-in model (street), or another program's model."
    ),
]
EnsembleWith = Annotated[
    list[str] | None,
    typer.Option(
        "--ensemble-with",
        metavar="MODEL",
        help="Average the probabilities with this model's, which must have the same tokenizer; may be repeated.",
    ),
]
BeamSize = Annotated[int, typer.Option("--beam", min=1, max=1000, metavar="N", help="Beam size; 1 is greedy search.")]
LengthPenalty = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="EXPONENT",
        help="Rank by log-probability / length ** EXPONENT; 0 favours short translations.",
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", rich_help_panel=LANGUAGES, help="Source language, for multilingual models (eng_Latn)."
    ),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", rich_help_panel=LANGUAGES, help="Target language, for multilingual models (deu_Latn)."
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        rich_help_panel=SPEED,
        help="Inference engine: fast (compiled C), plain (readable PyTorch) or ctranslate2.",
    ),
]
PrecisionName = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="NAME",
        rich_help_panel=SPEED,
        help="Weights in float32, float16 (nearly exact) or int8 (smallest and fastest).",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", rich_help_panel=SPEED, help="Threads, each with its own sentences; by default one per core."
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", rich_help_panel=SPEED, help="Sentences per worker at once; by default as many as fit."
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", rich_help_panel=SPEED, help="Source and target tokens per worker, over all hypotheses."
    ),
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        rich_help_panel=SPEED,
        help="Results bitwise independent of batch composition. Always so with the fast engine; others then translate "
        "one sentence at a time.",
    ),
]
SplitAt = Annotated[
    int,
    typer.Option(min=8, metavar="N", help="Split inputs longer than N tokens at sentence ends, and report it."),
]


def engine_from(
    engine: str,
    precision: str,
    workers: int | None = None,
    sentences: int | None = None,
    positions: int | None = None,
    exact: bool = False,
) -> "EngineOptions":
    """The engine options of the command line; those not given keep their defaults."""
    from glassformer.engine import EngineOptions

    given: dict[str, Any] = {
        "engine": engine,
        "precision": precision,
        "workers": workers,
        "sentences": sentences,
        "positions": positions,
        "exact": exact,
    }
    return EngineOptions(**{name: value for name, value in given.items() if value is not None})
