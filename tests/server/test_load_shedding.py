"""Load shedding: a full server refuses before it parses, and keeps its connections usable; accepted requests get the
same results as alone."""

import json
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.builtin import street
from glassformer.server.load_shedding import route_of_complete_request
from glassformer.server.translation_service import open_served_model
from tests.server.running import MUCH, WORDS, endless, running, served, until_closed


def request(path: str = "/api/translate", body: bytes = b'{"text": "a"}', *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json", *headers]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def one_answer(one: socket.socket) -> bytes:
    """The next response on a connection that stays open."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = one.recv(65536)
        assert part, "it closed the connection"
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    while len(body) < length:
        body += one.recv(65536)
    assert len(body) == length
    return head + b"\r\n\r\n" + body


@given(st.binary(max_size=50), st.integers(0, 300), st.binary(min_size=1, max_size=20))
def test_only_one_whole_request_is_taken_for_one(body, cut, more):
    whole = request(body=body)
    assert route_of_complete_request(whole) == b"/api/translate"
    assert route_of_complete_request(request("/translate", body)) == b"/translate"
    assert route_of_complete_request(whole[: min(cut, len(whole) - 1)]) is None
    assert route_of_complete_request(whole + more) is None


@pytest.mark.parametrize(
    "header",
    ["transfer-encoding: chunked", "Connection: close", "EXPECT: 100-continue", "upgrade: websocket",
     "content-length: 13", "Content-Length:   7", "content-length : 13", "x: \0", "x: \xff", ": x",
     "folded:\r\n more", "x"],
)  # fmt: skip
def test_what_is_unusual_is_parsed(header):
    """Reading a request differently from the parser could turn a body into the next request (request smuggling)."""
    assert route_of_complete_request(request("/api/translate", b'{"text": "a"}', header)) is None


def test_other_requests_are_parsed():
    for path in ("/api/explore", "/health", "/api/translate?x=1", "/api/translate/", "//api/translate"):
        assert route_of_complete_request(request(path)) is None
    assert route_of_complete_request(request().replace(b"POST", b"GET")) is None
    assert route_of_complete_request(request().replace(b"1.1", b"1.0")) is None
    assert route_of_complete_request(request().replace(b"\r\n", b"\n")) is None


def test_a_refused_connection_goes_on():
    """Refused twice without being parsed, once in two pieces, once with an incomplete body; then answered."""
    with running(endless(), requests=1) as server, server.connect() as one:
        with server.leaving("/api/translate", MUCH):
            server.until(lambda: server.metric("requests_under_way") == 1)
            for _ in range(2):
                one.sendall(request())
                answer = one_answer(one)
                assert answer.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1" in answer
                assert b"default-src 'none'" in answer
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"].endswith(".")
            one.sendall(request()[:40])
            time.sleep(0.1)
            one.sendall(request()[40:])
            assert one_answer(one).startswith(b"HTTP/1.1 503")
            with server.connect() as other:
                other.sendall(request(body=b"x" * 1000)[:-900])
                assert one_answer(other).startswith(b"HTTP/1.1 503")  # before its body has arrived
            assert server.metric('requests_total{route="/api/translate",status="503"}') >= 2
        server.until(lambda: server.metric("requests_under_way") == 0)
        one.sendall(request())
        assert one_answer(one).startswith(b"HTTP/1.1 200")


def test_pipelined_requests_are_each_answered_in_their_order():
    with running(endless(), requests=1) as server, server.leaving("/api/translate", MUCH), server.connect() as one:
        server.until(lambda: server.metric("requests_under_way") == 1)
        health = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        one.sendall(request() + health + request() + health.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        statuses = re.findall(rb"HTTP/1.1 (\d+)", until_closed(one))
        assert statuses == [b"503", b"200", b"503", b"200"]


def test_stalled_uploads_take_no_place():
    with running(served(), requests=1, body_seconds=2) as server:
        several = [server.connect() for _ in range(20)]
        try:
            for one in several:
                one.sendall(request()[:-5])
            time.sleep(0.2)
            assert server.post("/api/translate", {"text": WORDS}).status == 200
            for one in several:
                assert until_closed(one).startswith(b"HTTP/1.1 408")
        finally:
            for one in several:
                one.close()


def test_who_does_not_read_its_refusals_is_not_written_to_for_ever():
    with running(endless(), requests=1, write_seconds=1) as server, server.leaving("/api/translate", MUCH):
        server.until(lambda: server.metric("requests_under_way") == 1)
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", server.port))
            one.settimeout(10)
            assert sent_until_cut(one, 200_000_000) < 200_000_000  # paused, then closed
        assert server.get("/health").status == 200


def sent_until_cut(one: socket.socket, most: int) -> int:
    content, sent = request(), 0
    try:
        while sent < most:
            one.sendall(content)
            sent += len(content)
    except OSError:
        pass
    return sent


def resident() -> int:
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024


def test_a_machine_without_uvloop_serves_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with running(served()) as server:
        assert server.post("/api/translate", {"text": WORDS}).status == 200


def test_under_load_the_texts_are_those_of_offline_and_the_rest_is_refused():
    """Dozens of clients for a server of few slots; benchmarks/serving_load.py measures the same at a larger scale."""
    sources = [one.source for one in street.sentences("test", 24)]
    offline = dict(zip(sources, open_served_model("street").translator.translate(sources), strict=True))
    statuses: list[int] = []
    with running(open_served_model("street"), requests=4, body_seconds=3) as server:
        server.post("/api/translate", {"text": sources})
        base = resident()
        stalled = [server.connect() for _ in range(50)]
        for one in stalled:
            one.sendall(b"POST /api/explore HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        gate = threading.Barrier(48)

        def ask(number: int) -> None:
            with server.connect() as one:
                gate.wait()
                for turn in range(12):
                    source = sources[(number + turn) % len(sources)]
                    one.sendall(request(body=json.dumps({"text": source}).encode()))
                    head, _, body = one_answer(one).partition(b"\r\n\r\n")
                    statuses.append(int(head[9:12]))
                    if statuses[-1] == 200:
                        assert json.loads(body)["translations"][0]["text"] == offline[source]
                    else:
                        assert head.startswith(b"HTTP/1.1 503")
                        assert b"retry-after: 1" in head

        with ThreadPoolExecutor(48) as pool:
            list(pool.map(ask, range(48)))
        assert resident() - base < 200
        assert set(statuses) == {200, 503}
        for one in stalled:
            assert until_closed(one).startswith(b"HTTP/1.1 408")
            one.close()
        server.until(lambda: server.metric("requests_under_way") == 0)
        assert server.post("/api/translate", {"text": sources[0]}).status == 200
        assert server.metric("errors_total") == 0
