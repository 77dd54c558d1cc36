"""`glassformer serve`: an HTTP server for one model."""

import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.common import search_options as shared
from glassformer.errors import SettingsError
from glassformer.extras import explained

if TYPE_CHECKING:
    import socket

    from glassformer.engine import EngineOptions
    from glassformer.server.limits import Limits

_access_option = shared.panel("Access")
SWITCH_INTERVAL_SECONDS = 0.001
"""Python's thread switch interval, a fifth of the default, so that requests are answered while the model computes."""


def serve(
    model: shared.Model,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on; 127.0.0.1 is reachable from this machine only."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen on; 0 takes a free one and prints it.")
    ] = 8000,
    key_file: Annotated[
        Path | None,
        _access_option(
            "--api-key-file", metavar="FILE", help="API keys, one per line; every request must carry one of them."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _access_option(
            metavar="NAME", help="Further host name under which the server is reached (Host header); may be repeated."
        ),
    ] = None,
    allow_anonymous: Annotated[bool, _access_option("--open", help="Accept other machines without a key.")] = False,
    languages: Annotated[
        str | None,
        shared.language_option(
            metavar="FROM,TO", help="Language codes of a bilingual model, as clients name them: en,de."
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Set a limit of docs/serving.md, as in beam=8; may be repeated."),
    ] = None,
    source_language: shared.SourceLanguage = None,
    target_language: shared.TargetLanguage = None,
    split_at: shared.SplitAt = 512,
    engine: shared.EngineName = "fast",
    device: shared.DeviceOption = "cpu",
    precision: shared.PrecisionName = "float32",
    workers: shared.Workers = None,
    batch_size: shared.BatchSize = None,
    batch_tokens: shared.BatchTokens = None,
    exact: shared.Exact = False,
    shortlist: shared.UseShortlist = None,
) -> None:
    """Serve a model over HTTP: translation, the LibreTranslate API, traces and the explorer.

    To be reachable from other machines it needs --api-key-file or --open, because any client can use the whole CPU.
    """

    def announce(name: str, address: str, engine: str) -> None:
        typer.echo(f"Serving {name} at {address} ({engine}); Ctrl-C stops it.")

    run_server(
        model,
        announce,
        host=host,
        port=port,
        key_file=key_file,
        allow_host=allow_host or (),
        allow_anonymous=allow_anonymous,
        language_pair=_language_pair(languages),
        limits=limit or (),
        engine=lambda: shared.engine_from(
            engine, precision, workers, batch_size, batch_tokens, exact, shortlist, device
        ),
        max_tokens=split_at,
        source_language=source_language,
        target_language=target_language,
    )


def run_server(
    model: str,
    announce: Callable[[str, str, str], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    key_file: Path | None = None,
    allow_host: Sequence[str] = (),
    allow_anonymous: bool = False,
    language_pair: tuple[str, str] | None = None,
    limits: Sequence[str] = (),
    engine: "Callable[[], EngineOptions] | None" = None,
    **model_options: Any,
) -> None:
    """Serve until a signal. `announce` is called with the model's name, address and engine once the server listens.

    `model_options`: of `open_served_model`.
    """
    with explained():
        from glassformer.server.uvicorn_server import TranslationServer, address_of, bind, run
    from glassformer.server.api_keys import read_keys
    from glassformer.server.state import ServerState
    from glassformer.server.translation_service import open_served_model

    server_limits = limits_from(limits)
    keys = read_keys(key_file) if key_file is not None else None
    listening = bind(host, port)  # before the model is read, which takes longer
    try:
        _check_exposure(listening, keys is not None or allow_anonymous)
        served = open_served_model(model, engine=None if engine is None else engine(), **model_options)
        state = ServerState(served, server_limits, keys, language_pair)
        engine_name = str(state.service.engine)
        server = TranslationServer(state, allow_host, lambda: announce(served.name, address_of(listening), engine_name))
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        gc.freeze()  # the objects made so far are permanent: a collection over all of them pauses everything for 0.1 s
        run(server, listening)
    finally:
        listening.close()
    typer.echo("Stopped.", err=True)
    _exit_now()


def limits_from(given: Sequence[str]) -> "Limits":
    """The server's limits, with those given on the command line in place of the defaults."""
    import json

    from glassformer.server.limits import Limits

    table: dict[str, Any] = {}
    for setting in given:
        name, _, value = setting.partition("=")
        try:
            table[name.strip()] = json.loads(value)  # without "=" the value is empty, which is not JSON
        except (ValueError, RecursionError):
            raise SettingsError(f"--limit {setting} should be NAME=NUMBER, as in --limit beam=8.") from None
    return Limits(**table)


def _language_pair(languages: str | None) -> tuple[str, str] | None:
    if languages is None:
        return None
    codes = [code.strip() for code in languages.split(",")]
    if len(codes) != 2 or not all(codes):
        raise SettingsError(f"--languages {languages} should be two language codes, as in --languages en,de.")
    return codes[0], codes[1]


def _check_exposure(listening: "socket.socket", allowed: bool) -> None:
    """Refuse to serve other machines without an explicit decision: any client can use the whole CPU."""
    from glassformer.server.uvicorn_server import address_of, is_loopback

    if not (allowed or is_loopback(listening)):
        raise SettingsError(
            f"{address_of(listening)} can be reached from other machines: require keys with --api-key-file FILE, or "
            "allow everyone with --open."
        )


def _exit_now() -> None:
    """Exit without joining threads: an abandoned trace may still be running in one, and Python would wait for it."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
