"""What an operator needs: access log, named keys with rates, origins, root path, Unix socket, languages, metrics."""

import gzip
import http.client
import io
import json
import os
import re
import signal
import socket
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import DataError, GlassformerError, SettingsError
from glassformer.server.access_log import AccessLog
from glassformer.server.access_policy import ServerAddress
from glassformer.server.api_keys import APIKey, APIKeys, read_keys
from glassformer.server.language_names import language_names, pair_of_name
from glassformer.server.page_routes import page_files
from glassformer.server.server_options import ServerOptions
from tests.server.running import running, served
from tests.server.test_serve_command import served as started

KEY, OTHER = "k" * 16, "o" * 16


def test_the_access_log_has_a_line_per_request_with_its_id_and_no_text():
    stream = io.StringIO()
    with running(served(), [APIKey(KEY, "web")], log=AccessLog("json", engine="fast", stream=stream)) as server:
        secret = "a private sentence"
        answer = server.post("/api/translate?q=private", {"text": secret}, authorization=f"Bearer {KEY}")
        assert answer.status == 200
        own = server.post("/api/translate", {"text": 3}, **{"x-api-key": KEY, "x-request-id": "mine-1"})
        assert (own.status, own.headers["x-request-id"]) == (422, "mine-1")
        strange = server.get("/health", **{"x-request-id": "two words"})
        assert re.fullmatch("[0-9a-f]{16}", strange.headers["x-request-id"])
        server.get("/api/model").is_refused(401)
        server.until(lambda: stream.getvalue().count("\n") == 4)
    first, second, third, fourth = map(json.loads, stream.getvalue().splitlines())
    assert first["request_id"] == answer.headers["x-request-id"]
    assert (first["level"], first["key"], first["method"], first["path"]) == ("info", "web", "POST", "/api/translate")
    assert (first["status"], first["client"], first["engine"]) == (200, "127.0.0.1", "fast")
    assert 0 < first["seconds"] < 600
    assert (second["level"], second["status"], second["request_id"]) == ("warning", 422, "mine-1")
    assert (third["path"], third["key"]) == ("/health", None)
    assert (fourth["status"], fourth["key"]) == (401, None)
    assert "private" not in stream.getvalue()
    assert KEY not in stream.getvalue()


@pytest.mark.parametrize(("level", "logged"), [("info", [200, 404, 500]), ("warning", [404, 500]), ("error", [500])])
def test_the_level_chooses_by_status(level, logged):
    stream = io.StringIO()
    log = AccessLog("text", level, "fast", stream, now=lambda: 0.0)
    for status in (200, 404, 500):
        log.write("id", "::1", None, "GET", "/a\nb", status, 0.0015)
    assert [int(re.search(r" (\d+) in 1.5 ms", line)[1]) for line in stream.getvalue().splitlines()] == logged
    assert stream.getvalue().splitlines()[-1] == (
        "1970-01-01T00:00:00.000Z error id ::1 GET /a\\nb 500 in 1.5 ms, engine fast"
    )


def test_a_key_file_has_names_and_rates(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# comment\n{KEY}\n\nalice {OTHER}\nbob {'b' * 16} per-minute=3\n")
    keys = read_keys(file)
    assert keys.find(KEY).name is None
    assert (keys.find(OTHER).name, keys.find(OTHER).per_minute) == ("alice", None)
    assert (keys.find("b" * 16).name, keys.find("b" * 16).per_minute) == ("bob", 3)
    assert keys.find("x" * 16) is None
    wrong = ["a b c", f"alice {KEY} beam=3", f"alice {KEY} per-minute=9 x", f"Über {KEY}", "alice short", "short"]
    for line in (*wrong, f"alice {KEY} per-minute=0", f"alice {KEY} per-minute=9999999"):
        file.write_text(f"{OTHER}\n{line}\n")
        with pytest.raises(DataError, match="line 2: "):
            read_keys(file)


@given(st.integers(1, 1000), st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_a_rate_admits_a_minutes_worth_and_then_its_rate(per_minute, pauses):
    """In any time there are no more requests than that time's and one minute's; who waits as told is admitted."""
    now = 0.0
    key = APIKey(KEY, per_minute=per_minute, now=lambda: now)
    admitted = 0
    for pause in pauses:
        now += pause
        while not (seconds := key.seconds_to_wait()):
            admitted += 1
        assert admitted <= per_minute * (1 + now / 60) + 1e-6
        now += seconds
        assert key.seconds_to_wait() == 0
        admitted += 1


def test_too_many_requests_with_a_key_are_refused_until_later():
    with running(served(), [APIKey(KEY, "web", per_minute=2), APIKey(OTHER)]) as server:
        asked = [server.post("/translate", {"q": "the", "api_key": KEY}) for _ in range(3)]
        assert [answer.status for answer in asked] == [200, 200, 429]
        assert "2 requests per minute" in asked[2].is_refused(429)
        assert 1 <= int(asked[2].headers["retry-after"]) <= 30
        assert server.get("/api/model", authorization=f"Bearer {KEY}").status == 429
        assert server.get("/health", authorization=f"Bearer {KEY}").status == 200
        assert server.get("/api/model", authorization=f"Bearer {OTHER}").status == 200


def test_replaced_keys_are_accepted_from_now_on_and_a_known_key_keeps_its_count():
    now = 0.0

    def key(text, per_minute):
        return APIKey(text, per_minute=per_minute, now=lambda: now)

    keys = APIKeys([key(KEY, 1), key(OTHER, 1)])
    assert keys.find(KEY).seconds_to_wait() == 0
    keys.replace(APIKeys([key(KEY, 1), key("n" * 16, None)]))
    assert keys.find(OTHER) is None
    assert keys.find("n" * 16).seconds_to_wait() == 0
    assert keys.find(KEY).seconds_to_wait() > 0
    keys.replace(APIKeys([key(KEY, 2)]))
    assert keys.find(KEY).seconds_to_wait() == 0


def preflight(server, origin):
    return server.ask("OPTIONS", "/api/translate", headers={"origin": origin, "access-control-request-method": "POST"})


def test_pages_of_an_allowed_origin_may_send_requests():
    site, other = "https://example.org", "https://other.org"
    with running(served(), [KEY], origins=[site]) as server:
        asked = preflight(server, site)
        assert (asked.status, asked.body) == (204, b"")
        assert asked.headers["access-control-allow-origin"] == site
        assert "x-api-key" in asked.headers["access-control-allow-headers"]
        headers = {"origin": site, "sec-fetch-site": "cross-site"}
        server.post("/api/translate", {"text": "the"}, **headers).is_refused(401)
        answer = server.post("/api/translate", {"text": "the"}, authorization=f"Bearer {KEY}", **headers)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, site)
        assert answer.headers["vary"] == "origin"
        for refused in (preflight(server, other), server.get("/health", origin=other)):
            assert "access-control-allow-origin" not in refused.headers
            refused.is_refused(403)
        server.get("/health", **{"sec-fetch-site": "cross-site"}).is_refused(403)
    with running(served(), [KEY], origins=["*"]) as server:
        assert preflight(server, other).headers["access-control-allow-origin"] == "*"


def test_all_origins_need_keys_or_permission():
    for options in (ServerOptions(allow_origin=["*"]), ServerOptions(allow_origin=["https://a.org", "*"])):
        with pytest.raises(SettingsError, match="require keys with --api-key-file"):
            options.address(has_keys=False)
        assert options.address(has_keys=True).allowed_origin("https://x.org") == "*"
    assert ServerOptions(allow_origin=["*"], allow_anonymous=True).address(has_keys=False).origins == ("*",)
    for wrong in ("example.org", "https://example.org/path", "https://a b", ""):
        with pytest.raises(SettingsError, match="--allow-origin"):
            ServerAddress.of(origins=[wrong])


@pytest.mark.parametrize("root", ["/translation", "a/b/", "/x"])
def test_below_a_root_path_every_request_is_that_of_the_root(root):
    with running(served(), root_path=root) as server, running(served()) as plain:
        prefix = "/" + root.strip("/")
        for path in ("/", "/docs", "/languages", "/assets/page.js", "/nothing"):
            there, stripped, here = server.get(prefix + path), server.get(path), plain.get(path)
            assert (there.status, there.body) == (stripped.status, stripped.body) == (here.status, here.body), path
        assert server.post(f"{prefix}/translate", {"q": "the"}).json() == plain.post("/translate", {"q": "the"}).json()
        moved = server.get(prefix)
        assert (moved.status, moved.headers["location"]) == (308, f"{prefix}/")
        assert server.get(f"{prefix}/openapi.json").json()["servers"] == [{"url": prefix}]
        assert server.get(f"{prefix}x").status == 404


def test_a_root_path_is_a_path():
    assert ServerAddress.of(root_path="/").root_path == ServerAddress.of(root_path="").root_path == ""
    for wrong in ("/a b", "/a?b", "/a//b", "/é", "/\n"):
        with pytest.raises(SettingsError, match="--root-path"):
            ServerAddress.of(root_path=wrong)


def test_links_of_the_pages_are_relative():
    with running(served()) as server:
        for path in ("/", "/docs"):
            assert re.findall(r'(?:href|src)="/[^"]*"', server.get(path).text) == []
        assert ".${path}" in server.get("/assets/try_request.js").text


def test_pages_are_compressed_for_those_who_take_it_and_sent_once():
    with running(served()) as server:
        for path in (*page_files(), "/docs"):
            plain, packed = server.get(path), server.get(path, **{"accept-encoding": "br, gzip;q=0.5"})
            assert "content-encoding" not in plain.headers
            assert packed.headers["content-encoding"] == "gzip"
            assert gzip.decompress(packed.body) == plain.body
            assert packed.headers["vary"] == "accept-encoding"
            assert "content-encoding" not in server.get(path, **{"accept-encoding": "gzip;q=0, identity"}).headers
            again = server.get(path, **{"if-none-match": plain.headers["etag"]})
            assert (again.status, again.body) == (304, b"")
        assert len(server.get("/assets/page.js", **{"accept-encoding": "gzip"}).body) < 120_000


def test_the_docs_offer_every_request_with_a_body_that_works():
    with running(served("plain")) as server:
        page, document = server.get("/docs").text, server.get("/openapi.json").json()
        paths = {(method, path) for path, methods in document["paths"].items() for method in methods}
        forms = re.findall(r'data-method="(\w+)" data-path="([^"]+)">(.*?)</form>', page, re.DOTALL)
        assert {(method.lower(), path) for method, path, _ in forms} == paths
        for method, path, form in forms:
            if "{" not in path and path != "/api/pronoun":  # whose sentence this model does not translate
                body = re.search(r"<textarea[^>]*>(.*?)</textarea>", form, re.DOTALL)
                sent = None if body is None else json.loads(body[1].replace("&quot;", '"').replace("&#x27;", "'"))
                assert server.ask(method, path, sent).status == 200, path


def test_metrics_tell_the_build_and_the_process():
    with running(served()) as server:
        text = server.get("/metrics").text
    values = dict(re.findall(r"^((?:process|glassformer_build)\w*)(?:\{.*\})? (\S+)$", text, re.MULTILINE))
    assert values["glassformer_build_info"] == "1"
    assert 'model="small"' in text
    assert float(values["process_cpu_seconds_total"]) > 0
    assert abs(float(values["process_start_time_seconds"]) - time.time()) < 3600
    assert "# TYPE process_cpu_seconds_total counter" in text
    if os.path.exists("/proc/self/statm"):
        assert float(values["process_resident_memory_bytes"]) > 2**20
        assert 0 < float(values["process_open_fds"]) < float(values["process_max_fds"])


def test_languages_have_names_and_what_a_models_name_tells():
    assert language_names(["en", "de_DE", "zho_Hans", "zho_Hant", "eng_Latn", "xq"]) == {
        "en": "English",
        "de_DE": "German",
        "zho_Hans": "Chinese (Hans)",
        "zho_Hant": "Chinese (Hant)",
        "eng_Latn": "English (Latn)",
        "xq": "xq",
    }
    named = {
        "opus-mt-en-de": ("en", "de"),
        "multi30k-de-en": ("de", "en"),
        "en2pt": ("en", "pt"),
        "x_en_fr_v2": ("en", "fr"),
    }
    assert {name: pair_of_name(name) for name in named} == named
    for name in ("street", "my-model", "best-1", "en-en", "en", "model", "", "ende"):
        assert pair_of_name(name) is None
    with running(served(), named=("en", "de")) as server:
        first, second = server.get("/languages").json()
        assert (first["code"], first["name"], first["targets"], second["name"]) == ("en", "English", ["de"], "German")


def test_it_listens_on_a_unix_socket_and_reads_its_keys_again(tmp_path):
    keys, path = tmp_path / "keys", tmp_path / "socket"
    keys.write_text(f"{KEY}\n")
    abandoned = socket.socket(socket.AF_UNIX)
    abandoned.bind(str(path))
    abandoned.close()
    with started("street", "--unix-socket", path, "--api-key-file", keys, "--access-log", "text") as process:
        assert process.stdout.readline().startswith(f"Serving street at unix:{path} (engine ")

        def status(key):
            with closing(http.client.HTTPConnection("localhost")) as client:
                client.sock = socket.socket(socket.AF_UNIX)
                client.sock.connect(str(path))
                headers = {"x-api-key": key, "content-type": "application/json"}
                client.request("POST", "/translate", json.dumps({"q": "The dog."}), headers)
                return client.getresponse().status

        assert (status(KEY), status(OTHER)) == (200, 401)
        for text, answers in ((f"alice {OTHER}\n", (401, 200)), ("short\n", (401, 200)), (f"{KEY}\n", (200, 401))):
            keys.write_text(text)
            process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 60
            while (found := (status(KEY), status(OTHER))) != answers and time.monotonic() < end:
                time.sleep(0.1)
            assert found == answers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        log = process.stderr.read()
    assert not path.exists()
    assert log.count(f"Read the API keys in {keys} again.\n") == 2
    assert f"The API keys stay as they were: {keys}, line 1: a key needs at least 16" in log
    assert " alice POST /translate 200 in " in log


def test_something_else_at_the_sockets_path_stays(tmp_path):
    from glassformer.server.uvicorn_server import bind_unix

    (tmp_path / "file").write_text("mine")
    with pytest.raises(GlassformerError, match="something is there already"):
        bind_unix(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    bound = bind_unix(tmp_path / "socket")
    bound.listen()
    with pytest.raises(GlassformerError, match="something is there already"):
        bind_unix(tmp_path / "socket")
    bound.close()
    bind_unix(tmp_path / "socket").close()
