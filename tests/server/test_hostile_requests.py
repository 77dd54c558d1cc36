"""Hostile requests get a result or a one-sentence error, never a traceback and never a file outside the page."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import max_examples
from tests.server.running import JSON, WORDS, running, served

ROUTES = ("/api/translate", "/api/explore", "/api/explore/x/what-if", "/translate", "/detect")


@pytest.fixture(scope="module")
def server():
    with running(served()) as server:
        yield server


@pytest.mark.parametrize("path", ["/api/translate", "/api/explore", "/translate"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"3",
        b'"text"',
        b"\xff\xfe",
        b'{"text": "\xff"}',
        b'\xef\xbb\xbf{"text": "a"}',
        b'{"text": NaN, "q": NaN}',
        b'{"text": "a", "q": "a", "beam": NaN, "alternatives": NaN}',
        b'{"text": "a", "q": "a", "beam": Infinity, "alternatives": Infinity}',
        b'{"text": "a", "q": "a", "beam": 1e999, "alternatives": 1e999}',
        b'{"text": "a", "q": "a", "beam": 99999999999999999999999, "alternatives": 99999999999999999999999}',
        b'{"text": "a", "q": "a", "beam": ' + b"9" * 5000 + b', "alternatives": ' + b"9" * 5000 + b"}",
        b'{"text": "a", "q": "a", "beam": -1, "alternatives": -1}',
        b'{"text": "a", "q": "a", "beam": 0.5, "alternatives": 0.5}',
        b'{"text": {"a": "b"}, "q": {"a": "b"}}',
        b'{"text": [["a"]], "q": [["a"]]}',
        b'{"text": [1], "q": [1]}',
        b'{"text": null, "q": null}',
        b'{"text": "\\ud800", "q": "\\ud800"}',
        b'{"text": "a\\u0000b", "q": "a\\u0000b"}',
        b'{"text": "a", "text": "b", "q": "a", "q": "b"}',
        b'{"text": "a", "length_penalty": 717.4, "q": ""}',
        b'{"text": "a", "length_penalty": true, "q": ""}',
        b"[" * 100_000,
        b'{"text": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"self": 1, "text": "a", "q": 1}',
        b'{"__class__": 1, "__init__": {}, "q": []}',
    ],
)
def test_a_body_that_makes_no_sense_is_one_sentence(server, path, body):
    answer = server.ask("POST", path, body, JSON)
    assert 400 <= answer.status < 500, (answer.status, answer.text)
    answer.is_refused(answer.status)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": 3}, "text = 3 should be a string or a list."),
        ({"text": ["a", 3]}, "text.1 = 3 should be a string."),
        ({"text": "a", "beam": True}, "beam = True should be a whole number."),
        ({"text": "a", "tokens": 1}, "tokens = 1 should be true or false."),
        ({"text": "a", "length_penalty": 11}, "length_penalty = 11 should be at most 10."),
        ({"text": "a", "beam": 1_000_000}, "beam = 1000000 is larger than this server's limit of 16."),
        ({"text": "a", "n_best": 1_000_000}, "n_best = 1000000 is larger than this server's limit of 16."),
        ({"text": "a\0"}, "The text contains the NUL character (U+0000). Remove it."),
    ],
)
def test_a_value_of_a_wrong_type_is_named_without_python_types(server, body, message):
    assert server.post("/api/translate", body).is_refused(422) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (3, "changes.0 = 3 should contain named options."),
        ({"kind": "remove-head", "head": 0}, "The option 'changes.0.at' is missing."),
        ({"kind": "remove-head", "at": "a", "head": "b"}, "changes.0.head = 'b' should be a whole number."),
        ({"kind": "replace-matrices", "at": "a", "by": "b", "which": ["z"]},
         "changes.0.which.0 = 'z' should be 'q', 'k' or 'v'."),
    ],
)  # fmt: skip
def test_a_wrong_change_is_named_by_its_place(server, change, message):
    """The message named the option without the change, or the change with the name of its class."""
    path = f"/api/explore/{_identity(server)}/what-if"
    assert server.post(path, {"changes": [change]}).is_refused(422) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is not valid JSON: it cannot be read from line 1, column 2 on."),
        (b'{"text": "a", "beam": ' + b"9" * 5000 + b"}",
         "The body is not valid JSON: a number has 5,000 digits, more than 100."),
    ],
)  # fmt: skip
def test_what_is_no_json_is_told_without_the_parsers_words(server, body, message):
    assert server.ask("POST", "/api/translate", body, JSON).is_refused(400) == message


def test_unknown_paths_and_methods_refer_to_the_list_of_routes(server):
    assert server.get("/api/nothing").is_refused(404) == "There is nothing at this path. /docs lists all routes."
    assert "does not support this method. /docs lists" in server.get("/api/translate").is_refused(405)


def test_unknown_options_are_named_with_the_nearest(server):
    assert "did you mean 'beam'?" in server.post("/api/translate", {"text": "a", "beem": 3}).is_refused(422)


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "multipart/form-data", "application/xml", "application/x-www-form-urlencoded"]
)
def test_another_kind_of_body_is_refused(server, kind):
    """A page of another site can send forms and plain text without a preflight request; our own API accepts neither."""
    server.ask("POST", "/api/translate", json.dumps({"text": "a"}), {"content-type": kind}).is_refused(415)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "NONSENSE"])
def test_other_methods_are_refused(server, method):
    answer = server.ask(method, "/api/translate")
    assert answer.status in (400, 404, 405)
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b", "[::1",
     "localhost:x", "localhost@evil.example", "evil.example#localhost", "evil.example/localhost", "0x7f.1",
     "xn--localhost-"],
)  # fmt: skip
def test_another_hosts_name_is_refused(server, host):
    """DNS rebinding: evil.example resolves to 127.0.0.1, and the browser sends that name as Host."""
    answer = server.raw(f"GET /api/model HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 421", b"HTTP/1.1 400")), answer[:200]
    assert b"config" not in answer


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8000", "[::1]:8000", "10.0.0.7"])
def test_our_own_names_are_not(server, host):
    answer = server.raw(f"GET /health HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200")


def test_two_hosts_or_none_are_refused(server):
    for hosts in (b"host: localhost\r\nhost: evil.example\r\n", b""):
        answer = server.raw(b"GET /health HTTP/1.1\r\n" + hosts + b"connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 4")


def test_names_that_were_allowed_are_ours():
    with running(served(), hosts=["translate.example"]) as server:
        assert server.get("/health", host="translate.example").status == 200
        assert server.get("/health", host="Translate.Example:443").status == 200
        server.get("/health", host="other.example").is_refused(421)
        assert server.get("/health", host="localhost", origin="https://translate.example").status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", "nonsense", "http://["]
)
def test_other_sites_pages_are_refused(server, origin):
    answer = server.post("/api/translate", {"text": "a"}, origin=origin)
    answer.is_refused(403)
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_pictures_and_scripts_are_refused_too(server, site):
    """Browsers request them without an Origin, but with Sec-Fetch-Site; links to our pages are allowed."""
    for path in ("/api/weight/encoder.embedding.weight", "/api/model", "/health", "/assets/page.js", "/metrics"):
        server.get(path, **{"sec-fetch-site": site}).is_refused(403)
    for path in ("/", "/docs"):
        assert server.get(path, **{"sec-fetch-site": site}).status == 200
    for site in ("same-origin", "none"):
        assert server.get("/api/model", **{"sec-fetch-site": site}).status == 200


def test_our_own_page_is_not(server):
    assert server.post("/api/translate", {"text": "a"}, origin=f"http://127.0.0.1:{server.port}").status == 200


def test_every_answer_carries_a_strict_policy_and_no_cors(server):
    identity = server.post("/api/explore", {"text": "the street"}).json()["id"]
    for path in ("/", "/docs", "/health", "/metrics", "/openapi.json", "/api/model", "/nowhere", "/languages",
                 f"/api/explore/{identity}/tensor/memory", f"/api/explore/{identity}/tree"):  # fmt: skip
        headers = server.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy or "default-src 'self'" in policy, path
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe-eval" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert not any(name.startswith("access-control") for name in headers)


def test_our_pages_load_nothing_from_elsewhere(server):
    for path in ("/", "/docs"):
        page = server.get(path).text
        assert "glassformer" in page or "/api/translate" in page
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
        for script in re.findall(r"<script\b.*?</script>", page, re.DOTALL):  # one of our files, and no inline script
            assert re.fullmatch(r'<script [^>]*src="(\./)?assets/[\w.-]+"></script>', script)


ESCAPES = [
    "/../../etc/passwd", "/assets/../../app.py", "/assets/..%2f..%2fapp.py", "/assets/%2e%2e/%2e%2e/app.py",
    "/assets/..\\..\\app.py", "/assets/%5c..%5capp.py", "/assets//etc/passwd", "/assets/%00",
    "/assets/index.html%00.js", "/assets/....//....//app.py", "/%2e%2e/app.py", "/assets/%c0%ae%c0%ae/app.py",
    "//etc/passwd", "/assets/", "/static/app.py", "/api/explore/..%2f..%2fetc/tensor/memory",
    "/api/explore/x/tensor/..%2f..%2fetc%2fpasswd", "/api/weight/..%2f..%2fetc%2fpasswd",
    "/api/weight/%2fetc%2fpasswd", "/api/explore/%00/trace", "/api/explore/x/figure/..%2f..%2fetc%2fpasswd.svg",
    "/api/weight/encoder/embedding/weight", "/api/weight/%ff%fe",
]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_leads_out(server, path):
    answer = server.raw(b"GET " + path.encode() + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400", b"HTTP/1.1 422")), answer[:100]
    assert b"root:" not in answer
    assert b"import" not in answer


@pytest.mark.parametrize(
    "name", ["../memory", "memory/", "Memory", "memory\0", "", "self", "__class__", "same", "parameters.memory"]
)
def test_names_that_are_none_are_not_found(server, name):
    from urllib.parse import quote

    identity = server.post("/api/explore", {"text": "the street"}).json()["id"]
    server.get(f"/api/explore/{identity}/tensor/{quote(name, safe='')}").is_refused(404)
    server.get(f"/api/weight/{quote(name, safe='')}").is_refused(404)


def test_large_headers_and_nonsense_are_refused(server):
    head = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
    assert server.raw(head + b"x: " + b"a" * 100_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 4")
    many = b"".join(b"x%d: 1\r\n" % i for i in range(10_000))
    assert server.raw(head + many + b"\r\n").startswith(b"HTTP/1.1 4")
    for nonsense in (
        b"\x16\x03\x01\x02\x00\x01",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
    ):
        assert server.raw(nonsense + b"\r\n\r\n").startswith(b"HTTP/1.1 4")
    assert server.get("/health").status == 200


def test_what_is_no_http_is_one_sentence_too(server):
    head, _, body = server.raw(b"nonsense\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/json" in head
    assert json.loads(body)["error"].endswith(".")


TRANSLATE = b"POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "words"),
    [
        (TRANSLATE + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "both Content-Length and"),
        (TRANSLATE + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", "both Content-Length and"),
        (b"GET /health HTTP/1.1\nhost: localhost\n\n", "ends in LF alone"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n", "ends in LF alone"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\n\n", "ends in LF alone"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: y\r\n z\r\n\r\n", "folded"),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: y\r\n\tz\r\n\r\n", "folded"),
    ],
)
def test_a_request_that_a_proxy_may_read_differently_is_refused(server, request_bytes, words):
    """Request smuggling: all of these were answered, and the connection went on (RFC 9112: 2.2, 5.2, 6.3)."""
    after = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for content in (request_bytes + after, after + request_bytes + after):
        response = server.raw(content)
        *_, last = response.split(b"HTTP/1.1 ")
        assert last.startswith(b"400"), response
        assert b"connection: close" in last
        assert words in json.loads(last.partition(b"\r\n\r\n")[2])["error"]


def test_a_strict_request_may_contain_what_its_head_may_not(server):
    body = b'{"text":\n\n "the street"}\n \n\n'
    head = TRANSLATE + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert server.raw(head + body).startswith(b"HTTP/1.1 200")


def test_a_websocket_is_refused(server):
    answer = server.raw(
        b"GET /health HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade, close\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    assert not answer.startswith(b"HTTP/1.1 101")


def test_a_key_is_asked_for_when_there_are_any():
    one, other = "the-first-key-of-two", "the-second-key-of-two"
    with running(served(), keys=[one, other]) as server:
        for path in ("/health", "/", "/docs", "/openapi.json", "/languages"):
            assert server.get(path).status == 200
        for path in ("/metrics", "/api/model", "/api/weight/encoder.embedding.weight", "/nowhere"):
            answer = server.get(path)
            answer.is_refused(401)
            assert answer.headers["www-authenticate"] == "Bearer"
        body = {"text": WORDS}
        server.post("/api/translate", body).is_refused(401)
        for wrong in ("", "Bearer", "Bearer ", "Basic abc", f"Bearer {one}x", f"Bearer {one[:-1]}", "Bearer \xff"):
            server.post("/api/translate", body, authorization=wrong).is_refused(401)
        for key in (one, other):
            assert server.post("/api/translate", body, authorization=f"Bearer {key}").status == 200
            assert server.post("/api/translate", body, **{"x-api-key": key}).status == 200
            assert server.get("/metrics", authorization=f"Bearer {key}").status == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("the street"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
OPTIONS = ["text", "q", "beam", "n_best", "length_penalty", "no_repeat", "tokens", "alignment", "source", "target",
           "hypothesis", "changes", "replace", "format", "alternatives", "api_key", "source_language"]  # fmt: skip
bodies = st.dictionaries(st.sampled_from(OPTIONS) | st.text(max_size=4), json_values, max_size=6).map(
    lambda table: {"text": "the street"} | table if len(table) % 2 else table
)


@given(st.sampled_from(ROUTES), bodies | json_values)
@max_examples(150)
def test_no_body_is_our_error(server, path, body):
    identity = _identity(server)
    answer = server.ask("POST", path.replace("/x/", f"/{identity}/"), json.dumps(body), JSON)
    assert answer.status < 500, (answer.status, answer.text)
    assert answer.status == 200 or answer.is_refused(answer.status)


def _identity(server) -> str:
    if not hasattr(server, "identity") or server.get(f"/api/explore/{server.identity}").status != 200:
        server.identity = server.post("/api/explore", {"text": "the street"}).json()["id"]
    return server.identity


kinds = st.sampled_from(
    ["remove-head", "average-head", "remove-edge", "uniform-attention", "skip-feed-forward", "replace-matrices",
     "replace-token", "force-prefix", "nonsense"]
)  # fmt: skip
places = st.integers(-1, 3) | st.integers()
addresses = st.sampled_from(
    ["encoder.layers.0.self_attention", "decoder.layers.1.cross_attention", "decoder.layers.0.self_attention",
     "encoder.layers.0", "decoder.layers.0", "encoder", "", "memory", "output_projection"]
)  # fmt: skip
FIELDS = {
    "at": addresses, "by": addresses, "head": places | st.none(), "query": places, "key": places, "position": places,
    "count": places, "ids": st.lists(st.integers(0, 700) | places, max_size=4),
    "which": st.lists(st.sampled_from("qkvx")),
}  # fmt: skip
WANTED = {
    "remove-head": ("at", "head"), "average-head": ("at", "head"), "remove-edge": ("at", "query", "key", "head"),
    "uniform-attention": ("at",), "skip-feed-forward": ("at",), "replace-matrices": ("at", "by", "which"),
    "replace-token": ("position", "count", "ids"), "force-prefix": ("ids",), "nonsense": (),
}  # fmt: skip


@st.composite
def changes(draw):
    kind = draw(kinds)
    names = draw(st.sets(st.sampled_from(sorted(FIELDS)))) if draw(st.integers(0, 4)) == 0 else WANTED[kind]
    return {"kind": kind} | {name: draw(FIELDS[name]) for name in names}


@given(st.lists(changes(), max_size=3))
@max_examples(60)
def test_no_change_is_our_error(server, several):
    answer = server.post(f"/api/explore/{_identity(server)}/what-if", {"changes": several})
    assert answer.status < 500, (answer.status, answer.text)
    assert answer.status == 200 or answer.is_refused(answer.status)


texts = st.text(alphabet=string.ascii_letters + string.digits + "./%:=&?#\\_-*", max_size=20)
PARTS = ["api", "explore", "tensor", "weight", "figure", "trace", "tree", "assets", "ID", "memory"]
QUERIES = ["", "rows=0", "rows=-1", "rows=1:0", "cols=9999999999", "to=0x0", "to=1x1", "half=2", "rows=a&cols=:"]
paths = st.builds(
    lambda parts, query: "/" + "/".join(parts) + (f"?{query}" if query else ""),
    st.lists(st.sampled_from(PARTS) | texts, max_size=5),
    st.sampled_from(QUERIES) | texts,
)


@given(st.sampled_from(["GET", "POST", "HEAD", "DELETE"]), paths)
@max_examples(150)
def test_no_address_is_our_error(server, method, path):
    target = path.replace("ID", _identity(server)).encode("ascii", "ignore")
    target = re.sub(rb"[^\x21-\x7e]", b"", target)
    answer = server.raw(method.encode() + b" " + target + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert re.match(rb"HTTP/1.1 [234]", answer), answer[:300]


def test_nothing_was_our_error(server):
    assert server.metric("errors_total") == 0
