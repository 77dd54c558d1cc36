"""Options shared by the commands that translate, and the engine options made from them."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.engine import EngineOptions
    from glassformer.translator import Translator

Choice = TypeVar("Choice", bound=str)


def panel(title: str) -> Callable[..., Any]:
    """`typer.Option`, for options in a panel of the help with this title."""
    return partial(typer.Option, rich_help_panel=title)


language_option, _speed_option = panel("Languages"), panel("Speed")

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Model directory, run directory, built-in model (street), or another program's model."
    ),
]
Sentence = Annotated[str, typer.Argument(metavar="SENTENCE", help="Sentence to translate, in quotes.")]
SourceFile = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="Source sentences, one per line; or a .tsv, .csv or .jsonl file with both sides."
    ),
]
TranslationFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Their translations, line by line.")]
EnsembleWith = Annotated[
    list[str] | None,
    typer.Option(
        "--ensemble-with",
        metavar="MODEL",
        help="Average the probabilities with this model's, which must have the same tokenizer; may be repeated.",
    ),
]
BEAM = typer.Option("--beam", min=1, max=1000, metavar="N", help="Beam size; 1 is greedy search.")
BeamSize = Annotated[int, BEAM]
OptionalBeamSize = Annotated[int | None, BEAM]
LengthPenalty = Annotated[
    float,
    typer.Option(
        min=0, metavar="EXPONENT", help="Rank by log-probability / length ** EXPONENT; 0 favours short translations."
    ),
]
SourceLanguage = Annotated[
    str | None, language_option(metavar="CODE", help="Source language, for multilingual models (eng_Latn).")
]
TargetLanguage = Annotated[
    str | None, language_option(metavar="CODE", help="Target language, for multilingual models (deu_Latn).")
]
EngineName = Annotated[
    str,
    _speed_option(
        "--engine", metavar="NAME", help="Inference engine: fast (compiled C), plain (readable PyTorch) or ctranslate2."
    ),
]
DeviceOption = Annotated[
    str,
    _speed_option(
        "--device",
        metavar="NAME",
        help="Where to compute: cpu, cuda (or cuda:1 and so on), mps, or auto for a CUDA GPU if there is one. A GPU "
        "needs PyTorch.",
    ),
]
PrecisionName = Annotated[
    str,
    _speed_option(
        "--precision",
        metavar="NAME",
        help="Weights in float32, float16 (nearly exact), bfloat16 (for processors that multiply in it) or int8 "
        "(smallest and fastest).",
    ),
]
Workers = Annotated[
    int | None,
    _speed_option(
        "--threads",
        "--workers",
        min=1,
        metavar="N",
        help="Threads, each with its own sentences; by default one per core.",
    ),
]
BatchSize = Annotated[
    int | None, _speed_option(min=1, metavar="N", help="Sentences per thread at once; by default as many as fit.")
]
BatchTokens = Annotated[
    int | None, _speed_option(min=1, metavar="N", help="Source and target tokens per thread, over all hypotheses.")
]
Exact = Annotated[
    bool,
    _speed_option(
        "--exact",
        help="Results bitwise independent of batch composition. Always so with the fast engine; others then translate "
        "one sentence at a time.",
    ),
]
UseShortlist = Annotated[
    bool | None,
    _speed_option(
        "--shortlist/--no-shortlist",
        show_default=False,
        help="Restrict each translation to the tokens of the model's shortlist, which is faster; by default if its "
        "measured cost is at most 0.3 BLEU.",
    ),
]
SplitAt = Annotated[
    int, typer.Option(min=8, metavar="N", help="Split inputs longer than N tokens at sentence ends, and report it.")
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Read torch.save files (.pt); no code in them is executed.")
]
AllNumbersAsJSON = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")]


def chosen(option: str, value: str, choices: Iterable[Choice]) -> Choice:
    """The choice that an option's value names; any other value is an error."""
    if (choice := next((choice for choice in choices if choice == value), None)) is not None:
        return choice
    raise SettingsError(f"Unknown {option} {value!r}; choose one of {', '.join(choices)}.")


def engine_from(
    engine: str,
    precision: str,
    workers: int | None = None,
    sentences: int | None = None,
    positions: int | None = None,
    exact: bool = False,
    shortlist: bool | None = None,
    device: str = "cpu",
) -> "EngineOptions":
    """The engine options of the command line; those not given keep their defaults."""
    from glassformer.engine import EngineOptions

    given: dict[str, Any] = {"workers": workers, "sentences": sentences, "positions": positions, "shortlist": shortlist}
    given = {name: value for name, value in given.items() if value is not None}
    return EngineOptions(engine=engine, precision=precision, exact=exact, device=device, **given)  # type: ignore[arg-type]


def report_device(requested: str, translator: "Translator") -> None:
    """Say on stderr which engine and device answer, if a device was asked for."""
    if requested != "cpu":
        from glassformer.engine import describe_engine

        typer.echo(f"Computing with {describe_engine(translator.engine)}.", err=True)
