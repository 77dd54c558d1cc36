"""`glassformer serve`: a model behind HTTP, for many clients at once."""

import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.search_options import (
    BatchSize,
    BatchTokens,
    EngineName,
    Exact,
    Model,
    PrecisionName,
    SourceLanguage,
    SplitAt,
    TargetLanguage,
    Workers,
    engine_from,
)
from glassformer.errors import GlassformerError, SettingsError

if TYPE_CHECKING:
    import socket

    from glassformer.engine import EngineOptions
    from glassformer.server.limits import Limits

DOOR = "Who may come in"  # a panel of the help
TURN = 0.001
"""Seconds that a thread may keep Python to itself when others want it: a fifth of the usual, so that requests are
answered, or refused, beside the work."""
MISSING = "Serving needs two packages: pip install 'glassformer[serve]'."


def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="The address to listen at; 127.0.0.1 is this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one and says which.")] = 8000,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--api-key-file",
            metavar="FILE",
            rich_help_panel=DOOR,
            help="A key a line; requests must bring one of them.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=DOOR,
            help="A name that the server is known by, beside localhost and its address; may be repeated.",
        ),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--open", rich_help_panel=DOOR, help="Let other machines in without a key.")
    ] = False,
    languages: Annotated[
        str | None,
        typer.Option(metavar="FROM,TO", help="Codes of the two languages of a model of one pair: en,de."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Any bound of docs/serving.md, as in beam=8; may be repeated."),
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    split_at: SplitAt = 512,
    engine: EngineName = "fast",
    precision: PrecisionName = "float32",
    workers: Workers = None,
    batch_size: BatchSize = None,
    batch_tokens: BatchTokens = None,
    exact: Exact = False,
) -> None:
    """Serve a model by HTTP: translation, LibreTranslate's interface, traces to look into.

    Beyond this machine only with keys, or with --open: whoever reaches it may use all of its processor.
    """

    def tell(name: str, address: str) -> None:
        typer.echo(f"Serving {name} at {address}; Ctrl-C stops it.")

    serving(
        model,
        tell,
        host=host,
        port=port,
        key_file=key_file,
        allow_host=allow_host or (),
        everybody=everybody,
        named=_named(languages),
        limits=limit or (),
        engine=lambda: engine_from(engine, precision, workers, batch_size, batch_tokens, exact),
        max_tokens=split_at,
        source_language=source_language,
        target_language=target_language,
    )


def serving(
    model: str,
    tell: Callable[[str, str], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    key_file: Path | None = None,
    allow_host: Sequence[str] = (),
    everybody: bool = False,
    named: tuple[str, str] | None = None,
    limits: Sequence[str] = (),
    engine: "Callable[[], EngineOptions] | None" = None,
    max_tokens: int = 512,
    source_language: str | None = None,
    target_language: str | None = None,
) -> None:
    """Serve until told to stop. `tell` hears the model's name and the server's address once it listens."""
    try:
        from glassformer.server.uvicorn_server import TranslationServer, address_of, bind, run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise GlassformerError(MISSING) from None
    from glassformer.server.api_keys import read_keys
    from glassformer.server.state import ServerState
    from glassformer.server.translation_service import open_served_model

    bounds = limits_from(limits)
    keys = read_keys(key_file) if key_file is not None else None
    bound = bind(host, port)  # before the model is read, which takes longer
    try:
        _check_reach(bound, keys is not None or everybody)
        served = open_served_model(
            model,
            engine=None if engine is None else engine(),
            max_tokens=max_tokens,
            source_language=source_language,
            target_language=target_language,
        )
        server = TranslationServer(
            ServerState(served, bounds, keys, named), allow_host, lambda: tell(served.name, address_of(bound))
        )
        sys.setswitchinterval(TURN)
        gc.freeze()  # what is there now stays: to look through all of it for garbage would stop everything for 0.1 s
        run(server, bound)
    finally:
        bound.close()
    typer.echo("Stopped.", err=True)
    _leave()


def limits_from(given: Sequence[str]) -> "Limits":
    """The bounds, with those that are given in the place of ours."""
    import json

    from glassformer.server.limits import Limits

    table: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        try:
            table[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            raise SettingsError(f"--limit {one} is not NAME=NUMBER, as in --limit beam=8.") from None
        if not equals:
            raise SettingsError(f"--limit {one} is not NAME=NUMBER, as in --limit beam=8.")
    return Limits(**table)


def _named(languages: str | None) -> tuple[str, str] | None:
    if languages is None:
        return None
    codes = [code.strip() for code in languages.split(",")]
    if len(codes) != 2 or not all(codes):
        raise SettingsError(f"--languages {languages} is not two codes, as in --languages en,de.")
    return codes[0], codes[1]


def _check_reach(bound: "socket.socket", allowed: bool) -> None:
    """Other machines come in only by somebody's decision: a model takes all of a processor for whoever asks."""
    from glassformer.server.uvicorn_server import address_of, is_loopback

    if not (allowed or is_loopback(bound)):
        raise SettingsError(
            f"{address_of(bound)} can be reached from other machines: ask for keys with --api-key-file FILE, or say "
            "--open if everybody may come in."
        )


def _leave() -> None:
    """A trace that nobody waits for any more may still be under way in a thread, which Python would wait for."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
