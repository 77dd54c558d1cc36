"""Test helper: a real server on a free port of this machine, in a thread, and a client for it."""

import http.client
import json
import re
import socket
import threading
import time
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from glassformer.decoding.alignment_choice import default_alignment_heads
from glassformer.engine import EngineOptions, open_engine
from glassformer.server.access_policy import ServerAddress
from glassformer.server.api_keys import APIKey, APIKeys
from glassformer.server.limits import Limits
from glassformer.server.state import ServerState
from glassformer.server.translation_service import ServedModel
from glassformer.server.uvicorn_server import TranslationServer, bind, run
from glassformer.translator import Translator
from tests import small_translator

PATIENT = {"header_seconds": 120, "body_seconds": 120, "write_seconds": 120, "seconds": 600}
"""Limits of time for tests of something else: longer than a busy machine needs."""
PATIENCE_SECONDS = 600
"""Time a client waits for its response; only a hanging server takes that long."""
JSON = {"content-type": "application/json"}
WORDS = "the animal did not cross the street because it was too tired"


@cache
def served(engine: str = "fast", **options: Any) -> ServedModel:
    """A small random translator."""
    model = small_translator.model(3, **options)
    opened = open_engine([model], EngineOptions(engine=engine, exact=engine == "plain"))
    translator = Translator(model, small_translator.tokenizer(), engine=opened)
    return ServedModel("small", translator, default_alignment_heads(model.config))


@cache
def endless() -> ServedModel:
    """A model that never predicts the end of a sentence: a text of many words keeps it busy for a while."""
    model = small_translator.model(3, output_bias=True)
    with torch.no_grad():
        model.output_projection.bias[model.config.eos_id] = -1e4
    opened = open_engine([model], EngineOptions(engine="plain", exact=True))
    translator = Translator(model, small_translator.tokenizer(), engine=opened)
    return ServedModel("endless", translator, default_alignment_heads(model.config))


LONG = " ".join([WORDS] * 20)  # about 500 steps
MUCH = {"text": [LONG] * 15, "beam": 4}


class Running:
    """A running server, with methods to send it requests."""

    def __init__(self, port: int, state: ServerState) -> None:
        self.port, self.state = port, state

    def connect(self, timeout: float = PATIENCE_SECONDS) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, content: bytes, timeout: float = PATIENCE_SECONDS) -> bytes:
        """The server's response to these bytes, until it closes the connection."""
        with self.connect(timeout) as one:
            one.sendall(content)
            return until_closed(one)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> "Answer":
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            if isinstance(body, (dict, list)):
                body, headers = json.dumps(body), JSON | (headers or {})
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> "Answer":
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> "Answer":
        return self.ask("POST", path, body, headers)

    def metric(self, name: str) -> float:
        """A value from /metrics; 0 if it was never counted."""
        match = re.search(rf"^{re.escape('glassformer_' + name)} (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return float(match[1]) if match else 0.0

    def until(self, reached, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition holds; fail after `seconds`."""
        end = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < end, f"the condition did not hold within {seconds} seconds"
            time.sleep(0.02)

    @contextmanager
    def leaving(self, path: str, body: Any):
        """A client that sends a request, and disconnects without its response at the end of the block."""
        content = json.dumps(body).encode()
        with self.connect() as one:
            one.sendall(
                b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                % (path.encode(), len(content), content)
            )
            yield one


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def is_refused(self, status: int) -> str:
        """The message of an error response, which is one sentence or two and no traceback."""
        assert self.status == status, (self.status, self.text)
        [(name, sentence)] = self.json().items()
        assert name == "error"
        assert sentence.endswith((".", "?")), sentence
        assert "Traceback" not in sentence
        assert "\n" not in sentence
        return sentence


def until_closed(one: socket.socket) -> bytes:
    parts = []
    try:
        while part := one.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass  # aborted, not closed
    return b"".join(parts)


@contextmanager
def running(
    served: ServedModel,
    keys: list[Any] | None = None,
    named=None,
    hosts=(),
    origins=(),
    root_path="",
    log=None,
    **limits,
):
    state = ServerState(
        served,
        Limits(**PATIENT | limits),
        APIKeys(APIKey(key) if isinstance(key, str) else key for key in keys or []),
        named,
    )
    started = threading.Event()
    bound = bind("127.0.0.1", 0)
    server = TranslationServer(state, ServerAddress.of(hosts, origins, root_path), started.set, log)
    thread = threading.Thread(target=run, args=(server, bound), daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE_SECONDS)
        yield Running(bound.getsockname()[1], state)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        bound.close()
        assert not thread.is_alive(), "the server does not stop"
