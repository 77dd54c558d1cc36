"""`glassformer figure`: pictures of a sentence's computation in a model, as SVG or PNG, or all of them on one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.common.help_pages import AS_WRITTEN
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import Model, Sentence, SourceLanguage, TargetLanguage
from glassformer.errors import GlassformerError, SettingsError
from glassformer.figure_catalogue import VIEWS, options_for_view

if TYPE_CHECKING:
    from glassformer.inspection import Trace

STORY = "story"
VIEW_LIST = "\n".join(
    f"  {name:<16}{summary}"
    for name, summary in [
        *((view.name, view.summary) for view in VIEWS.values()),
        (STORY, "all of these on one page, with text: FILE.html"),
    ]
)


def figure(
    model: Model,
    sentence: Sentence,
    view: Annotated[str | None, typer.Argument(metavar="VIEW", help="What to draw: one of the views above.")] = None,
    out: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write: FILE.svg or FILE.png; FILE.html for story.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Attention, such as decoder.layers.1.cross_attention; by default the last one of the encoder.",
        ),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, metavar="N", help="Attention head, numbered from 0.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="Token to show, without ▁ (it#2 is the second it), or its position, from 0."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Draw this translation instead of the model's own.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, metavar="N", help="Beam size; 1 is greedy search.")] = None,
    width: Annotated[
        str, typer.Option(metavar="86mm|178mm", help="Width of one column or of a full page of a journal.")
    ] = "178mm",
    dark: Annotated[bool, typer.Option("--dark", help="Draw light on dark.")] = False,
    caption: Annotated[bool, typer.Option(help="Write the description under the picture.")] = True,
    scale: Annotated[
        float, typer.Option(min=0.1, max=20, metavar="FACTOR", help="Resolution of a PNG: FACTOR × 96 dots per inch.")
    ] = 2.0,
    all_views: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Draw every view, as DIR/VIEW.svg.")
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Draw a sentence's computation in a model, with the model's own numbers."""
    if (all_views is None) == (view is None) or (view is None) != (out is None):
        raise SettingsError(
            "Give a view and a file after the sentence, such as `attention FILE.svg` or `story FILE.html`; or only "
            "--all DIR."
        )
    options: dict[str, Any] = {"at": at, "head": head, "token": token, "width": width, "dark": dark, "caption": caption}
    with ProgressCounter("Tracing,"):
        from glassformer.inspection import inspect
        from glassformer.inspection.figures import FigureOptions
        from glassformer.inspection.figures import figure as draw
        from glassformer.loading import load

        FigureOptions(**options)  # reports wrong options before the model is read
        translator = load(model, source_language=source_language, target_language=target_language)
        trace = inspect(translator).trace(sentence, target, beam=beam)

    if all_views is not None:
        _draw_all(trace, all_views, options)
        return
    assert view is not None
    assert out is not None
    if view == STORY:
        with ProgressCounter("Drawing,"):
            trace.story(name=Path(model).name, dark=dark, at=at, head=head, token=token).save(out)
    else:
        with ProgressCounter("Drawing,"):
            picture = draw(trace, view, **options)
            picture.save(out, scale)
        typer.echo(picture.description)
    typer.echo(f"Written to {out}{': open it in a browser' if view == STORY else ''}.")


def _draw_all(trace: "Trace", directory: Path, options: dict[str, Any]) -> None:
    """Draw every view of a trace; a view that cannot be drawn is reported, and the others go on."""
    from glassformer.atomic_directory import make_directory
    from glassformer.inspection.figures import figure

    make_directory(directory)
    for view in VIEWS:
        try:
            with ProgressCounter(f"Drawing {view},"):
                figure(trace, view, **options_for_view(view, options)).save(directory / f"{view}.svg")
        except GlassformerError as error:
            typer.echo(f"{view}: {error}", err=True)
            continue
        typer.echo(f"Written to {directory / view}.svg.")


figure.__doc__ = f"{figure.__doc__}\n\n{AS_WRITTEN}The views:\n{VIEW_LIST}"
