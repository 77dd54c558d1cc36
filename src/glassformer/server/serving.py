"""`serve`: a server for one model, from the socket to the end of the last request."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from glassformer.data.given_texts import listed_texts
from glassformer.errors import InputError, SettingsError
from glassformer.extras import explained
from glassformer.translator import Translator

if TYPE_CHECKING:
    import socket

    from glassformer.server.api_keys import APIKeys
    from glassformer.server.limits import Limits
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
    keys: Sequence[str] = (),
    allow_host: Sequence[str] = (),
    allow_anonymous: bool = False,
    language_pair: tuple[str, str] | None = None,
    limits: Mapping[str, Any] | None = None,
    on_started: Announce | None = None,
) -> None:
    """Serve a model over HTTP, with the explorer, until Ctrl-C; docs/serving.md has the routes.

    >>> gf.serve("street", port=8000)  # doctest: +SKIP
    Serving street at http://127.0.0.1:8000 (engine fast on cpu in float32, library avx2); Ctrl-C stops it.

    An address that other machines can reach needs `keys`, of which each request must carry one, or `allow_anonymous`,
    because any client can use the whole CPU. `allow_host`: further names of the server. `language_pair`: the codes of a
    bilingual model, as clients name them. `limits`: of docs/serving.md, as in `{"beam": 8}`. Port 0 takes a free one.
    `on_started` is called with the model's name, the server's address and the engine, instead of printing them.
    """
    with explained():
        from glassformer.server.translation_service import open_served_model, served_model
    from glassformer.server.api_keys import APIKeys, checked_key
    from glassformer.server.limits import Limits

    with suppress(RuntimeError):
        asyncio.get_running_loop()  # there is none: a RuntimeError
        raise InputError("An event loop runs in this thread, as in a notebook: serve from another thread or process.")

    def open_served() -> "ServedModel":
        return served_model(model.name, model) if isinstance(model, Translator) else open_served_model(model)

    serve_until_stopped(
        open_served,
        on_started or _print_address,
        host=host,
        port=port,
        keys=APIKeys([checked_key(key, f"keys[{number}]") for number, key in enumerate(listed_texts(keys, "keys"))]),
        allow_host=allow_host,
        allow_anonymous=allow_anonymous,
        language_pair=language_pair,
        limits=Limits(**limits or {}),
    )


def serve_until_stopped(
    open_served: "Callable[[], ServedModel]",
    announce: Announce,
    *,
    host: str,
    port: int,
    keys: "APIKeys",
    allow_host: Sequence[str],
    allow_anonymous: bool,
    language_pair: tuple[str, str] | None,
    limits: "Limits",
) -> None:
    """Serve the model that `open_served` opens, until a signal; meanwhile Python switches threads more often."""
    with explained():
        from glassformer.server.uvicorn_server import TranslationServer, address_of, bind, run
    from glassformer.server.state import ServerState

    listening = bind(host, port)  # before the model is read, which takes longer
    interval = sys.getswitchinterval()
    try:
        _check_exposure(listening, bool(keys) or allow_anonymous)
        served = open_served()
        state = ServerState(served, limits, keys, language_pair)
        engine = str(state.service.engine)
        server = TranslationServer(state, allow_host, lambda: announce(served.name, address_of(listening), engine))
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        run(server, listening)
    finally:
        sys.setswitchinterval(interval)
        listening.close()


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
