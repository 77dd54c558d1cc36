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
    from glassformer.engine import EngineOptions
    from glassformer.server.limits import Limits
    from glassformer.server.server_options import ServerOptions

_access_option = shared.panel("Access")


def serve(
    model: shared.Model,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on; 127.0.0.1 is reachable from this machine only."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen on; 0 takes a free one and prints it.")
    ] = 8000,
    unix_socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Listen on this Unix socket, in place of an address and port.")
    ] = None,
    root_path: Annotated[
        str, typer.Option(metavar="PATH", help="The path below which a proxy serves it, as in /translation.")
    ] = "",
    key_file: Annotated[
        Path | None,
        _access_option(
            "--api-key-file",
            metavar="FILE",
            help="API keys, one per line, of which every request must carry one: KEY, NAME KEY, or NAME KEY "
            "per-minute=N. SIGHUP reads the file again.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _access_option(
            metavar="NAME", help="Further host name under which the server is reached (Host header); may be repeated."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        _access_option(
            metavar="URL",
            help="Site whose pages may use the server, as in https://example.org; '*' for all; may be repeated.",
        ),
    ] = None,
    allow_anonymous: Annotated[bool, _access_option("--open", help="Accept other machines without a key.")] = False,
    access_log: Annotated[
        str, _access_option(metavar="FORMAT", help="Log each request on stderr: off, text or json.")
    ] = "off",
    log_level: Annotated[
        str,
        _access_option(
            metavar="LEVEL", help="info logs all requests, warning those with status 400 or above, error from 500 on."
        ),
    ] = "info",
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
    from glassformer.server.server_options import ServerOptions

    def announce(name: str, address: str, engine: str) -> None:
        typer.echo(f"Serving {name} at {address} ({engine}); Ctrl-C stops it.")

    run_server(
        model,
        announce,
        ServerOptions(
            host=host,
            port=port,
            unix_socket=unix_socket,
            allow_host=allow_host or (),
            allow_origin=allow_origin or (),
            root_path=root_path,
            allow_anonymous=allow_anonymous,
            language_pair=_language_pair(languages),
            access_log=access_log,
            log_level=log_level,
            limits=limits_from(limit or ()),
        ),
        key_file=key_file,
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
    options: "ServerOptions",
    *,
    key_file: Path | None = None,
    engine: "Callable[[], EngineOptions] | None" = None,
    **model_options: Any,
) -> None:
    """Serve until a signal. `announce` is called with the model's name, address and engine once the server listens.

    `model_options`: of `open_served_model`.
    """
    with explained():
        from glassformer.server.serving import serve_until_stopped
        from glassformer.server.translation_service import open_served_model
    from glassformer.server.api_keys import APIKeys, read_keys

    keys = APIKeys() if key_file is None else read_keys(key_file)

    def started(name: str, address: str, engine_name: str) -> None:
        announce(name, address, engine_name)
        gc.freeze()  # the objects made so far are permanent: a collection over all of them pauses everything for 0.1 s

    serve_until_stopped(
        lambda: open_served_model(model, engine=None if engine is None else engine(), **model_options),
        started,
        options,
        keys,
        key_file,
    )
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


def _exit_now() -> None:
    """Exit without joining threads: an abandoned trace may still be running in one, and Python would wait for it."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
