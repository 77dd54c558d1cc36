"""`serve`: a server for one model, from the socket to the end of the last request."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.given_texts import listed_texts
from glassformer.errors import GlassformerError, InputError, SettingsError
from glassformer.extras import explained
from glassformer.server.server_options import ServerOptions
from glassformer.translator import Translator

if TYPE_CHECKING:
    import socket

    from glassformer.server.api_keys import APIKeys
    from glassformer.server.translation_service import ServedModel

SWITCH_INTERVAL_SECONDS = 0.001
"""Python's thread switch interval, a fifth of the default, so that requests are answered while the model computes."""
Announce = Callable[[str, str, str], None]
"""Called with the model's name, the server's address and the engine once it listens."""


def serve(
    model: Translator | str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    unix_socket: str | os.PathLike[str] | None = None,
    keys: Sequence[str] = (),
    allow_host: Sequence[str] = (),
    allow_origin: Sequence[str] = (),
    allow_anonymous: bool = False,
    root_path: str = "",
    language_pair: tuple[str, str] | None = None,
    limits: Mapping[str, Any] | None = None,
    access_log: str = "off",
    log_level: str = "info",
    on_started: Announce | None = None,
) -> None:
    """Serve a model over HTTP, with the explorer, until Ctrl-C; docs/serving.md has the routes.

    >>> gf.serve("street", port=8000)  # doctest: +SKIP
    Serving street at http://127.0.0.1:8000 (engine fast on cpu in float32, library avx2); Ctrl-C stops it.

    An address that other machines can reach needs `keys`, of which each request must carry one, or `allow_anonymous`,
    because any client can use the whole CPU. `allow_host`: further names of the server; `allow_origin`: other sites
    whose pages may use it; `root_path`: the path below which a proxy serves it. `language_pair`: the codes of a
    bilingual model, as clients name them. `limits`: of docs/serving.md, as in `{"beam": 8}`. Port 0 takes a free one;
    `unix_socket` takes the place of host and port. `access_log` is "off", "text" or "json"; `log_level` "info",
    "warning" or "error". `on_started` is called with the model's name, the server's address and the engine, instead of
    printing them.
    """
    with explained():
        from glassformer.server.translation_service import open_served_model, served_model
    from glassformer.server.api_keys import APIKey, APIKeys, checked_key
    from glassformer.server.limits import Limits

    with suppress(RuntimeError):
        asyncio.get_running_loop()  # there is none: a RuntimeError
        raise InputError("An event loop runs in this thread, as in a notebook: serve from another thread or process.")

    def open_served() -> "ServedModel":
        return served_model(model.name, model) if isinstance(model, Translator) else open_served_model(model)

    given = enumerate(listed_texts(keys, "keys"))
    options = ServerOptions(
        host=host,
        port=port,
        unix_socket=None if unix_socket is None else Path(unix_socket),
        allow_host=allow_host,
        allow_origin=allow_origin,
        root_path=root_path,
        allow_anonymous=allow_anonymous,
        language_pair=language_pair,
        access_log=access_log,
        log_level=log_level,
        limits=Limits(**limits or {}),
    )
    serve_until_stopped(
        open_served,
        on_started or _print_address,
        options,
        APIKeys([APIKey(checked_key(key, f"keys[{number}]")) for number, key in given]),
    )


def serve_until_stopped(
    open_served: "Callable[[], ServedModel]",
    announce: Announce,
    options: ServerOptions,
    keys: "APIKeys",
    key_file: Path | None = None,
) -> None:
    """Serve the model that `open_served` opens, until a signal; meanwhile Python switches threads more often.

    At SIGHUP the key file, if there is one, is read again.
    """
    with explained():
        from glassformer.server.uvicorn_server import TranslationServer, address_of, bind, bind_unix, run
    from glassformer.server.access_log import AccessLog
    from glassformer.server.state import ServerState

    address = options.address(bool(keys))
    path = options.unix_socket
    listening = bind(options.host, options.port) if path is None else bind_unix(path)  # before the model is read
    interval = sys.getswitchinterval()
    try:
        _check_exposure(listening, bool(keys) or options.allow_anonymous)
        served = open_served()
        state = ServerState(served, options.limits, keys, options.language_pair)
        engine = state.service.engine
        log = None if options.access_log == "off" else AccessLog(options.access_log, options.log_level, engine.engine)
        server = TranslationServer(
            state,
            address,
            lambda: announce(served.name, address_of(listening), str(engine)),
            log,
            None if key_file is None else lambda: _read_keys_again(keys, key_file),
        )
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        run(server, listening)
    finally:
        sys.setswitchinterval(interval)
        listening.close()
        if path is not None:
            path.unlink(missing_ok=True)


def _read_keys_again(keys: "APIKeys", file: Path) -> None:
    """Accept the file's keys from now on; a file with a mistake changes nothing."""
    from glassformer.server.api_keys import read_keys

    try:
        keys.replace(read_keys(file))
    except GlassformerError as error:
        sys.stderr.write(f"The API keys stay as they were: {error}\n")
    else:
        sys.stderr.write(f"Read the API keys in {file} again.\n")
    sys.stderr.flush()


def _print_address(name: str, address: str, engine: str) -> None:
    sys.stdout.write(f"Serving {name} at {address} ({engine}); Ctrl-C stops it.\n")
    sys.stdout.flush()


def _check_exposure(listening: "socket.socket", allowed: bool) -> None:
    """Refuse to serve other machines without an explicit decision: any client can use the whole CPU."""
    from glassformer.server.uvicorn_server import address_of, is_loopback

    if not (allowed or is_loopback(listening)):
        raise SettingsError(
            f"{address_of(listening)} can be reached from other machines: require keys with --api-key-file FILE, or "
            "allow everyone with --open."
        )
