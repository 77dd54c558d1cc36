"""The options of every command that translates, and the search that they ask for."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.decoding import SearchSettings
    from glassformer.engine import EngineOptions

Model = Annotated[str, typer.Argument(help="A model directory, a run directory, or a built-in model (street).")]
AnyModel = Annotated[str, typer.Argument(help="A model or run directory, another program's model, or street.")]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--ensemble-with", metavar="MODEL", help="Another model with the same tokenizer, to answer together with."
    ),
]
BeamSize = Annotated[int, typer.Option("--beam", min=1, max=1000, help="Hypotheses kept; 1 is greedy search.")]
LengthPenalty = Annotated[
    float, typer.Option(min=0, help="Compare by log-probability / length ** this; 0 favours short translations.")
]
SourceLanguage = Annotated[
    str | None, typer.Option(metavar="CODE", help="The language of the text, where a model knows many (eng_Latn).")
]
TargetLanguage = Annotated[
    str | None, typer.Option(metavar="CODE", help="The language wanted, where a model knows many (deu_Latn).")
]
SPEED = "Speed"  # a panel of the help
EngineName = Annotated[
    str, typer.Option("--engine", rich_help_panel=SPEED, help="fast (compiled C), plain (readable), or ctranslate2.")
]
PrecisionName = Annotated[
    str,
    typer.Option("--precision", rich_help_panel=SPEED, help="float32; float16: nearly exact; int8: small and fastest."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=SPEED, help="Threads, each with sentences of its own; all cores unless given."),
]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=SPEED, help="Sentences that a worker has under way; else what fits."),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=SPEED, help="Source and target tokens that a worker remembers at once."),
]
Exact = Annotated[
    bool, typer.Option("--exact", rich_help_panel=SPEED, help="No bit may depend on neighbours; fast needs no flag.")
]
SplitAt = Annotated[int, typer.Option(min=8, metavar="TOKENS", help="Split longer input at sentence ends, and say so.")]


def engine_from(
    engine: str,
    precision: str,
    workers: int | None = None,
    sentences: int | None = None,
    positions: int | None = None,
    exact: bool = False,
) -> "EngineOptions":
    """The engine asked for."""
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


def search_from(
    beam: int, n_best: int, length_penalty: float, sample: bool, options: dict[str, Any]
) -> "SearchSettings":
    """The search asked for; an option of the other kind of search is refused rather than ignored."""
    from glassformer.decoding import Beam, Sample

    kind = Sample if sample else Beam
    given = {name: value for name, value in options.items() if value is not None}
    if strangers := [name for name in given if name not in kind.model_fields]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in strangers)
        raise SettingsError(f"{flags} has no effect {'with' if sample else 'without'} --sample: leave one of them out.")
    given |= {"n_best": n_best, "length_penalty": length_penalty}
    return Sample(**given) if sample else Beam(size=beam, **given)
