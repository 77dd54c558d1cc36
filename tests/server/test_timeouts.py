"""Clients that send or read too slowly are disconnected, over real sockets.

Each test sets its limit to a second; the others are longer than `SOON`, so that none of them can be the cause.
"""

import socket
import time

from glassformer.server.uvicorn_internals import ProtectedServer
from tests.server.running import WORDS, running, served, until_closed

SOON = 60
"""More than a busy machine needs, and less than the limits in `running`."""
HEAD = b"POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def trickle(one: socket.socket, content: bytes, seconds: float) -> float:
    """Send a byte every tenth of a second until the other side closes; returns after how many seconds it did."""
    began = time.monotonic()
    one.settimeout(0.1)
    for byte in content:
        if time.monotonic() - began > seconds:
            break
        try:
            one.sendall(bytes([byte]))
            if not one.recv(65536):
                return time.monotonic() - began
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - began
    return float("inf")


def test_slow_headers_are_cut():
    with running(served(), header_seconds=1) as server:
        with server.connect() as one:
            assert 0.5 < trickle(one, HEAD * 100, SOON) < SOON
        assert server.metric('connections_cut_total{why="slow headers"}') == 1


def test_a_connection_that_says_nothing_is_cut():
    with running(served(), header_seconds=1) as server, server.connect() as one:
        began = time.monotonic()
        assert until_closed(one) == b""
        assert 0.5 < time.monotonic() - began < SOON


def test_slow_headers_of_a_second_request_are_cut_too():
    """uvicorn stops its timer at the first byte."""
    with running(served(), header_seconds=1) as server, server.connect() as one:
        one.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert one.recv(65536).startswith(b"HTTP/1.1 200")
        assert 0.5 < trickle(one, HEAD * 100, SOON) < SOON


def test_an_idle_connection_is_closed():
    with running(served(), idle_seconds=1) as server, server.connect() as one:
        one.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        began = time.monotonic()
        until_closed(one)
        assert time.monotonic() - began < SOON


def test_a_slow_body_is_a_408():
    with running(served(), body_seconds=1) as server, server.connect() as one:
        one.sendall(HEAD + b"content-length: 1000\r\n\r\n")
        began = time.monotonic()
        one.sendall(b'{"text": ')
        answer = until_closed(one)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"within 1 seconds" in answer
        assert time.monotonic() - began < SOON


def test_a_body_byte_by_byte_is_cut_as_well():
    with running(served(), body_seconds=1) as server, server.connect() as one:
        one.sendall(HEAD + b"content-length: 1000\r\n\r\n")
        one.settimeout(0.1)
        began = time.monotonic()
        answer = b""
        while not answer and time.monotonic() - began < SOON:
            try:
                one.sendall(b" ")
                answer = one.recv(65536)
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < SOON


def test_a_reader_that_does_not_read_is_cut():
    """The response is larger than the socket buffers, and its memory is freed."""
    with running(served(d_ff=40_000, d_model=64), write_seconds=1) as server, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(20)
        one.connect(("127.0.0.1", server.port))
        one.sendall(b"GET /api/weight/encoder.layers.0.feed_forward.up_proj.weight HTTP/1.1\r\nhost: localhost\r\n\r\n")
        server.until(lambda: server.metric("sending_bytes") > 0)
        server.until(lambda: server.metric("sending_bytes") == 0)
        assert server.metric('connections_cut_total{why="slow reader"}') == 1


def test_a_reader_that_takes_its_time_but_reads_is_not_cut():
    with running(served(d_ff=40_000, d_model=64), write_seconds=3) as server, server.connect() as one:
        one.sendall(
            b"GET /api/weight/encoder.layers.0.feed_forward.up_proj.weight HTTP/1.1\r\nhost: localhost\r\n"
            b"connection: close\r\n\r\n"
        )
        size, began = 0, time.monotonic()
        while part := one.recv(65536):
            size += len(part)
            time.sleep(0.03)
        assert time.monotonic() - began > 3.5
        assert size > 40_000 * 64 * 4


def test_a_stalled_client_leaves_no_lines_in_the_log(caplog):
    """Other servers log a traceback for every client that disconnects."""
    with running(served(), body_seconds=1) as server:
        for _ in range(20):
            with server.connect() as one:
                one.sendall(HEAD + b"content-length: 1000\r\n\r\n{")
        with server.leaving("/api/translate", {"text": [WORDS] * 50}):
            pass
        server.raw(b"nonsense\r\n\r\n")
        server.until(lambda: server.metric("connections") <= 1)
    assert caplog.records == []


def test_without_uvicorns_internals_the_server_answers_the_same(monkeypatch):
    """The switch for a release of uvicorn whose internals have changed: only the protection is missing."""
    usual = answers_of_a_server()
    monkeypatch.setattr(ProtectedServer, "uses_internals", False)
    assert answers_of_a_server() == usual


def answers_of_a_server():
    with running(served()) as server:
        asked = [server.ask("POST", "/api/translate", {"text": WORDS}), server.get("/health"), server.get("/nowhere")]
        assert server.metric("connections") >= 1
    return [(one.status, one.body, {**one.headers, "date": None, "x-request-id": None}) for one in asked]
