"""`glassformer explore`: the explorer of one model, in the browser of whoever asks."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.search_options import Model, SourceLanguage, TargetLanguage
from glassformer.cli.serve import serving
from glassformer.errors import InputError, SettingsError


def explore(
    model: Model,
    sentence: Annotated[str | None, typer.Argument(help="What to look at first; the page can ask for others.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses kept while searching.")] = 4,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the sentence's page to a file that loads nothing; serve none."),
    ] = None,
    detail: Annotated[str, typer.Option(help="Of --html: full; attention: its weights only, a small file.")] = "full",
    large: Annotated[bool, typer.Option("--large", help="Of --html: also if it is larger than 25 MB.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only say the address; open no browser.")] = False,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Look inside a model: a page on this machine, at every number of a sentence's way through it.

    With --html the page of one sentence becomes a file, to be opened anywhere, without a server and without a network.
    """
    if html is not None:
        write(model, sentence, html, detail, large, beam, source_language, target_language)
        return

    def tell(name: str, address: str) -> None:
        page = address + page_of(sentence, beam)
        typer.echo(f"Exploring {name} at {page}; Ctrl-C stops it.")
        if not no_open:
            _open(page)

    serving(model, tell, port=port, source_language=source_language, target_language=target_language)


def write(
    model: str,
    sentence: str | None,
    path: Path,
    detail: str,
    large: bool,
    beam: int,
    source_language: str | None,
    target_language: str | None,
) -> None:
    """The page of one sentence, as a file."""
    from glassformer.inspection.explorer import DETAILS, LARGEST
    from glassformer.loading import load

    kind = next((known for known in DETAILS if known == detail), None)
    if kind is None:
        raise SettingsError(f"--detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
    if sentence is None or not sentence.strip():
        raise InputError("A page that is saved is of one sentence: write it after the model, in quotes.")
    translator = load(model, source_language=source_language, target_language=target_language)
    trace = translator.trace(sentence, beam=beam)
    trace.to_html(path, kind, name=Path(model).name, largest=None if large else LARGEST)
    typer.echo(trace.translation)
    typer.echo(f"{path}: {path.stat().st_size:,} bytes, which open in any browser and load nothing.")


def page_of(sentence: str | None, beam: int = 4) -> str:
    """What follows the server's address: the page, with the sentence and the search after #."""
    from urllib.parse import urlencode

    if sentence is None:
        return "/"
    return "/#" + urlencode({"v": "sentence", "s": sentence} | ({} if beam == 4 else {"b": beam}))


def _open(page: str) -> None:
    """In a thread, because a browser that runs in a terminal would keep the server waiting."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
