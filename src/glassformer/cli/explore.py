"""`glassformer explore`: the explorer of one model, in the browser of whoever asks."""

from typing import Annotated

import typer

from glassformer.cli.search_options import Model, SourceLanguage, TargetLanguage
from glassformer.cli.serve import serving


def explore(
    model: Model,
    sentence: Annotated[str | None, typer.Argument(help="What to look at first; the page can ask for others.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses kept while searching.")] = 4,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only say the address; open no browser.")] = False,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
) -> None:
    """Look inside a model: a page on this machine, at every number of a sentence's way through it."""

    def tell(name: str, address: str) -> None:
        page = address + page_of(sentence, beam)
        typer.echo(f"Exploring {name} at {page}; Ctrl-C stops it.")
        if not no_open:
            _open(page)

    serving(model, tell, port=port, source_language=source_language, target_language=target_language)


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
