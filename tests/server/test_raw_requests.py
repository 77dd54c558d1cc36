"""Raw bytes as a request: an answer of the documented form or a closed connection, and the server goes on."""

import contextlib
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.examples import only_in_test_all, seeded_random
from tests.server.running import running, served, until_closed

BODY = b'{"text": "the street"}'
HOST = b"host: localhost\r\n"
LENGTH = b"content-length: 22\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNK = b"16\r\n" + BODY + b"\r\n"


def get(headers=b"", path=b"/health", method=b"GET", version=b"HTTP/1.1"):
    return method + b" " + path + b" " + version + b"\r\n" + HOST + b"connection: close\r\n" + headers + b"\r\n"


def post(body=BODY, headers=LENGTH, kind=b"content-type: application/json\r\n", path=b"/api/translate"):
    return get(headers + kind, path, b"POST") + body


REQUEST_LINES = [
    b"\r\n", b"\n", b"\r", b" ", b"\0", b".", b"G", b"GET", b"GET /health", b"GET /health\r\n\r\n",
    b"GET  /health HTTP/1.1\r\n" + HOST + b"\r\n", b"GET\t/health\tHTTP/1.1\r\n" + HOST + b"\r\n",
    b" GET /health HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /health HTTP/1.1 x\r\n" + HOST + b"\r\n",
    b"GET /he alth HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /health HTTP/1.1\r" + HOST + b"\r\n",
    b"GET /health HTTP/1.1\r\r\n" + HOST + b"\r\n", b"GET /health\0 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"HTTP/1.1 200 OK\r\n" + HOST + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"SSH-2.0-OpenSSH_9.9\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", b"\x80\x2e\x01\x00\x02", b"\x00\x00\x00\x08USER\r\n\r\n",
    b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1", b"\xff" * 4096, b"A" * 20_000, b"GET /" + b"a" * 20_000,
    b"\r\n\r\n" + get(), b"\r\n" + get(), b"\xef\xbb\xbf" + get(),
    *(get(version=version) for version in (b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/1", b"http/1.1", b"HTTP/1.1.1",
                                           b"HTTP/-1.1", b"HTTPS/1.1", b"HTTP/1.10", b"XTTP/1.1", b"HTTP/\xb2.1")),
    *(get(method=method) for method in (b"get", b"GE\0T", b"G@T", b"G(T", b"\xc3\x84", b"M" * 5000, b"_", b"1")),
    *(get(path=path) for path in (
        b"", b"*", b"health", b"//", b"///health", b"/health#x", b"/%", b"/%zz", b"/%00",
        b"/\xff\xfe", b"/\x7f", b"/\\health", b"/.", b"/..", b"/%2e%2e%2f", b"/health%0d%0ax:y", b"http://localhost/health",
        b"http://evil.example/health", b"https://localhost:99999/", b"file:///etc/passwd", b"http:///health", b"http://[::1",
        b"/api/explore/" + b"x" * 5000, b"/api/weight/%ed%a0%80", b"/api/explore/x/tensor/%2500", b"/openapi.json/",
    )),
]  # fmt: skip
BAD_HEADERS = [
    b"x : y\r\n", b"x\r\n", b": y\r\n", b"x y: z\r\n", b"x: a\0b\r\n", b"x: a\rb\r\n", b"x: \x0b\r\n", b"\xff: x\r\n",
    b"x: y\n", b"x: y\r\n z\r\n", b"host: localhost\r\n", b"host: evil.example\r\n", b"Host : localhost\r\n",
    b"origin: \r\n", b"x: " + b"y" * 16_384 + b"\r\n", b"x: y\r\n" * 3000,
]  # fmt: skip
ODD_HEADERS = [
    b"x: \xff\r\n", b"x:" + b" " * 9000 + b"y\r\n", b"x: y\r\n" * 500, b"n" * 9000 + b": x\r\n", b"connection: \r\n",
    b"connection: close, close, " + b"x, " * 500 + b"x\r\n", b"connection: content-length\r\n", b"expect: nonsense\r\n",
    b"upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABk\r\n", b"te: trailers\r\n",
    b"range: bytes=0-0,1-1,2-2," + b"3-3," * 900 + b"4-4\r\n", b"if-none-match: *\r\n", b"accept: ;;;\r\n",
    b"authorization: Basic !!!\r\n", b"authorization: Bearer \xff\r\n", b"cookie: " + b"a=b; " * 2000 + b"\r\n",
    b"x-forwarded-for: ::::\r\n", b"x-http-method-override: DELETE\r\n", b"content-length: 0\r\ncontent-length: 0\r\n",
    b"accept-encoding: " + b"gzip;q=0.1, " * 400 + b"br\r\n", b"sec-fetch-site: nonsense\r\n",
]  # fmt: skip
BAD_LENGTHS = [
    b"-1", b"+22", b"2 2", b"22, 23", b"0x16", b"22.0", b"2e1", b"", b"x", b"\xd9\xa2", b"22;", b"9" * 30, b"9" * 5000,
    b"18446744073709551616", b"18446744073709551638", b"9223372036854775808", b"4294967318", b"524289", b"23",
    b"22\r\ncontent-length: 23", b"22\r\ntransfer-encoding: chunked",
]  # fmt: skip
ENCODINGS = [
    b"gzip", b"identity", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"xchunked", b"chunked;q=1", b"",
    b",chunked", b"\x0bchunked", b'"chunked"', b"chunked\r\ntransfer-encoding: chunked",
    b"identity\r\ntransfer-encoding: chunked",
]  # fmt: skip
CHUNKS = [
    b"0x16\r\n", b"+16\r\n", b"-1\r\n", b" 16\r\n", b"16 x\r\n", b"\r\n", b"g\r\n", b"16\n", b"16\r", b"16;\n\r\n",
    b"ffffffffffffffff\r\n", b"ffffffffffffffffffffffffffffffff\r\n", b"80000000\r\n", b"1_6\r\n", b"\xef\xbc\x91\r\n",
    b"16;" + b"x" * 20_000 + b"\r\n",
]  # fmt: skip
CHUNK_ENDS = [b"\n0\r\n\r\n", b"\r0\r\n\r\n", b"0\r\n\r\n", b"xx0\r\n\r\n", b"\r\n0\n\n", b"\r\n0\r\n\n",
              b"\r\n0\r\nx: y\n\r\n", b"\r\n0\r\nx: y\r\n\n", b"\r\n0\r\nx: y\r\n z\r\n\r\n", b"\r\n0\r\nx\r\n\r\n",
              b"\r\n0\r\n: y\r\n\r\n",
              b"\r\n0\r\nx: a\0\r\n\r\n", b"\r\n0\r\n" + b"x: y\r\n" * 9000 + b"\r\n", b"\r\n-0\r\n\r\n"]  # fmt: skip
REFUSED = {
    "line": REQUEST_LINES,
    "header": [get(header) for header in BAD_HEADERS],
    "length": [post(headers=b"content-length: " + length + b"\r\n") for length in BAD_LENGTHS],
    "encoding": [post(CHUNK + b"0\r\n\r\n", b"transfer-encoding: " + name + b"\r\n") for name in ENCODINGS],
    "chunk": [post(size + BODY + b"\r\n0\r\n\r\n", CHUNKED) for size in CHUNKS],
    "end": [post(b"16\r\n" + BODY + end, CHUNKED) for end in CHUNK_ENDS],
    "body": [post(*other) for other in (
        (b"", b""), (b"", CHUNKED), (CHUNK, CHUNKED), (BODY[:-1],), (BODY, LENGTH, b""),
        (b"\x1f\x8b" + b"\0" * 20, LENGTH + b"content-encoding: gzip\r\n"), (BODY[::-1],), (b"[" * 22,),
        (b"\xff" * 22,),
    )],
}  # fmt: skip
ACCEPTED = {
    "header": [get(header) for header in ODD_HEADERS],
    "line": [get(path=b"/health?" + b"a=1&" * 3000), get(version=b"HTTP/1.0"), get(path=b"/%68ealth")],
    "length": [post(headers=b"content-length: " + length + b"\r\n") for length in (b" 22 ", b"22, 22", b"022")],
    "chunk": [
        post(body + b"0\r\n\r\n", CHUNKED)
        for body in (CHUNK, b"0" * 9 + CHUNK, b"16;x=y;\"z\r\n" + CHUNK[4:], b"16;" + b"x" * 9000 + b"\r\n" + CHUNK[4:],
                     b"".join(b"1\r\n%c\r\n" % byte for byte in BODY))
    ],
    "trailers": [post(CHUNK + b"0\r\n" + lines + b"\r\n", CHUNKED) for lines in (b"x: y\r\n", b"host: x\r\n")],
}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with running(served(), header_seconds=1, body_seconds=1) as server:
        yield server


def answers(server, contents):
    """The responses to raw requests, sent at once by many clients."""
    with ThreadPoolExecutor(32) as pool:
        return list(zip(contents, pool.map(server.raw, contents), strict=True))


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_wrong_is_refused_in_a_sentence_or_not_answered(server, kind):
    for content, response in answers(server, REFUSED[kind]):
        if not response:
            assert b"\r\n\r\n" not in content, content[:200]  # its head never ended
            continue
        head, _, body = response.partition(b"\r\n\r\n")
        assert re.match(rb"HTTP/1\.1 (400|403|404|405|408|413|415|421|422|431) ", head), (content[:200], head)
        assert b"\r\nconnection: close" in head.lower()
        sentence = json.loads(body)["error"]
        assert sentence.endswith("."), sentence
        assert "Traceback" not in sentence
    assert server.get("/health").status == 200


@pytest.mark.parametrize("kind", ACCEPTED)
def test_what_is_only_odd_is_answered(server, kind):
    for content, response in answers(server, ACCEPTED[kind]):
        assert response.startswith(b"HTTP/1.1 200 "), (content[:200], response[:200])


@only_in_test_all
def test_the_answer_does_not_depend_on_how_the_bytes_arrive(server):
    """Cut into three packets anywhere, a request has the same status."""
    chance = seeded_random("packets")

    def in_packets(content):
        first, second = sorted(chance.randrange(len(content) + 1) for _ in range(2))
        with server.connect() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):  # refused before its end
                for part in (content[:first], content[first:second], content[second:]):
                    client.sendall(part)
                    time.sleep(0.05)
            return until_closed(client)

    contents = [content for table in (REFUSED, ACCEPTED) for kind in table.values() for content in kind]
    assert len(contents) > 190
    with ThreadPoolExecutor(16) as pool:
        for (content, whole), response in zip(answers(server, contents), pool.map(in_packets, contents), strict=True):
            assert response[:12] == whole[:12], (content[:200], whole[:200], response[:200])
