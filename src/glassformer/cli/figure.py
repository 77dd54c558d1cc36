"""`glassformer figure`: pictures of a sentence's way through a model, as SVG or PNG, or all of them on one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.search_options import AnyModel, SourceLanguage, TargetLanguage
from glassformer.errors import GlassformerError, SettingsError

if TYPE_CHECKING:
    from glassformer.inspection import Trace

VIEWS = {
    "qkv": "X × W_Q = Q, X × W_K = K, X × W_V = V, for one head",
    "self-attention": "softmax(Q Kᵀ / √K) V = Z, for one head",
    "heads": "the Q, K and V of every head",
    "heads-out": "the Z of every head, and how much each brings",
    "concat": "all Z side by side, times W_O",
    "multi-head": "the whole attention, from tokens to output",
    "bridge": "from the encoder's output to every decoder layer's own K and V",
    "attention": "who looks at whom: one head, or all of them",
    "film": "decoding step by step, with both caches",
    "beam": "the tree of the search",
    "softmax": "the likeliest tokens at one target position",
}
"""Those of `inspection.figures`, for --help, which imports no torch; a test compares them."""
STORY = "story"
LISTED = "\n\n".join(
    f"{view}: {meaning}" for view, meaning in [*VIEWS.items(), (STORY, "all of these on one page to read, OUT.html")]
)


def figure(
    model: AnyModel,
    sentence: Annotated[str, typer.Argument(help="What to translate, in quotes.")],
    view: Annotated[str | None, typer.Argument(help="What to show; the views are listed above.")] = None,
    out: Annotated[Path | None, typer.Argument(metavar="[OUT.svg|OUT.png|OUT.html]", help="Where it goes.")] = None,
    at: Annotated[
        str | None,
        typer.Option(help="The attention: decoder.layers.1.cross_attention, say. Else the encoder's last."),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="The head, counted from 0.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The token to look at, without ▁; it#2 is the second; or its position, from 0.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="TEXT", help="This translation, not the model's own.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses that the search goes on with.")] = None,
    width: Annotated[str, typer.Option(metavar="86mm|178mm", help="A column of a journal, or a page.")] = "178mm",
    dark: Annotated[bool, typer.Option("--dark", help="Light on dark.")] = False,
    caption: Annotated[bool, typer.Option(help="Write the description under the picture too.")] = True,
    scale: Annotated[float, typer.Option(min=0.1, max=20, help="Of .png: times 96 dots to an inch.")] = 2.0,
    every: Annotated[
        Path | None, typer.Option("--all", metavar="OUTDIR", help="Every view, as OUTDIR/VIEW.svg.")
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Draw a sentence's way through a model, with the model's own numbers."""
    if (every is None) == (view is None) or (view is None) != (out is None):
        raise SettingsError(
            "Say what to draw and where: a view and a file, OUT.svg or OUT.png; story OUT.html; or --all OUTDIR alone."
        )
    from glassformer.inspection.figures import FigureOptions
    from glassformer.inspection.figures import figure as drawn
    from glassformer.loading import load

    look: dict[str, Any] = {"at": at, "head": head, "token": token, "width": width, "dark": dark, "caption": caption}
    FigureOptions(**look)  # complains before the model is read
    translator = load(model, source_language=source_language, target_language=target_language)
    trace = translator.trace(sentence, target, beam=beam)

    if every is not None:
        _draw_all(trace, every, look)
        return
    assert view is not None
    assert out is not None
    if view == STORY:
        trace.story(name=Path(model).name, dark=dark, at=at, head=head, token=token).save(out)
        typer.echo(str(out))
        return
    picture = drawn(trace, view, **look)
    picture.save(out, scale)
    typer.echo(picture.description)


def _draw_all(trace: "Trace", directory: Path, look: dict[str, Any]) -> None:
    """Every view of a trace; one that this trace has nothing for is named, and the others are drawn."""
    from glassformer.inspection.figures import figure, told

    directory.mkdir(parents=True, exist_ok=True)
    for view in VIEWS:
        try:
            figure(trace, view, **told(view, look)).save(directory / f"{view}.svg")
        except GlassformerError as error:
            typer.echo(f"{view}: {error}", err=True)
            continue
        typer.echo(str(directory / f"{view}.svg"))


figure.__doc__ = f"{figure.__doc__}\n\n{LISTED}"
