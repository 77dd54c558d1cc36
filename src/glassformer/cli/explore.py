"""`glassformer explore`: the explorer of one model, in the browser or as an HTML file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import Model, SourceLanguage, TargetLanguage, chosen
from glassformer.cli.serve import run_server
from glassformer.errors import InputError

DEFAULT_BEAM = 4


def explore(
    model: Model,
    sentence: Annotated[
        str | None,
        typer.Argument(metavar="SENTENCE", help="First sentence to show; others can be typed in the explorer."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen on; 0 takes a free one.")
    ] = 0,
    beam: Annotated[int, typer.Option(min=1, metavar="N", help="Beam size.")] = DEFAULT_BEAM,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the sentence to a self-contained HTML file instead of serving."),
    ] = None,
    detail: Annotated[
        str,
        typer.Option(metavar="full|attention", help="With --html: everything, or attention weights only (smaller)."),
    ] = "full",
    large: Annotated[bool, typer.Option("--large", help="With --html: allow a file of more than 25 MB.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address without opening a browser.")] = False,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Open the explorer in a browser: every step of a sentence's translation, with all numbers.

    With --html, write the explorer of one sentence as a file that opens anywhere, without a server or a network.
    """
    from glassformer.extras import require
    from glassformer.server.server_options import ServerOptions

    require("torch")
    languages: dict[str, Any] = {"source_language": source_language, "target_language": target_language}
    if html is not None:
        write_html(model, sentence, html, detail, large, beam, **languages)
        return

    def announce(name: str, address: str, engine: str) -> None:
        url = address + explorer_path(sentence, beam)
        typer.echo(f"Exploring {name} at {url}; Ctrl-C stops it.")
        if not no_open:
            _open_browser(url)

    run_server(model, announce, ServerOptions(port=port), **languages)


def write_html(
    model: str, sentence: str | None, path: Path, detail: str, large: bool, beam: int, **languages: Any
) -> None:
    """Write the explorer of one sentence as an HTML file."""
    from glassformer.inspection import inspect
    from glassformer.inspection.explorer import DETAILS, MAX_PAGE_BYTES
    from glassformer.loading import load

    known_detail = chosen("--detail", detail, DETAILS)
    if sentence is None or not sentence.strip():
        raise InputError("--html needs a sentence to show: give it after the model, in quotes.")
    with ProgressCounter("Writing the page,"):
        trace = inspect(load(model, **languages)).trace(sentence, beam=beam)
        trace.to_html(path, known_detail, name=Path(model).name, largest=None if large else MAX_PAGE_BYTES)
    typer.echo(trace.translation)
    typer.echo(f"{path}: {path.stat().st_size:,} bytes; it opens in any browser and loads nothing from the network.")


def explorer_path(sentence: str | None, beam: int = DEFAULT_BEAM) -> str:
    """The URL after the server's address, with the sentence and the beam size after #."""
    from urllib.parse import urlencode

    if sentence is None:
        return "/"
    return "/#" + urlencode({"v": "sentence", "s": sentence} | ({} if beam == DEFAULT_BEAM else {"b": beam}))


def _open_browser(url: str) -> None:
    """Open a URL in the browser, in a thread: a browser that runs in the terminal would block the server."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
