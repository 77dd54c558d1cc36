"""The options of every command that translates, and the search that they ask for."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.decoding import Search

Model = Annotated[str, typer.Argument(help="A model directory, a run directory, or a built-in model (street).")]
Others = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="MODEL", help="Another model with the same tokenizer, to answer together with."),
]
BeamSize = Annotated[int, typer.Option("--beam", min=1, max=1000, help="Hypotheses kept; 1 is greedy search.")]
LengthPenalty = Annotated[
    float, typer.Option(min=0, help="Compare by log-probability / length ** this; 0 favours short translations.")
]
SplitAt = Annotated[int, typer.Option(min=8, metavar="TOKENS", help="Split longer input at sentence ends, and say so.")]


def search_from(beam: int, n_best: int, length_penalty: float, sample: bool, options: dict[str, Any]) -> "Search":
    """The search asked for; an option of the other kind of search is refused rather than ignored."""
    from glassformer.decoding import Beam, Sample

    kind = Sample if sample else Beam
    given = {name: value for name, value in options.items() if value is not None}
    if strangers := [name for name in given if name not in kind.model_fields]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in strangers)
        raise SettingsError(f"{flags} has no effect {'with' if sample else 'without'} --sample: leave one of them out.")
    given |= {"n_best": n_best, "length_penalty": length_penalty}
    return Sample(**given) if sample else Beam(size=beam, **given)
