"""`glassformer serve` as a user runs it: prints its address, stops on a signal, and reports errors in one sentence."""

import http.client
import json
import re
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from glassformer.cli import app
from glassformer.cli.serve import limits_from
from glassformer.errors import GlassformerError, SettingsError
from glassformer.server.limits import Limits
from tests.processes import COMMAND, ROOT, run_fresh, run_plainly


@contextmanager
def served(*arguments: str):
    process = subprocess.Popen(
        [COMMAND, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


def port_of(process: subprocess.Popen) -> int:
    line = process.stdout.readline()
    engine = r"engine \w+ on cpu in float32(, library [\w-]+)?"
    found = re.fullmatch(rf"Serving street at http://127\.0\.0\.1:(\d+) \({engine}\); Ctrl-C stops it\.\n", line)
    assert found, line
    return int(found[1])


def ask(port: int, body: dict | None = None, path: str = "/api/translate", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"} | headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_ends_when_told(sign):
    with served("street", "--port", "0", "--languages", "en,de") as process:
        port = port_of(process)
        assert "Tier" in ask(port, {"text": "The animal didn't cross the street because it was too tired."})[1].decode()
        assert json.loads(ask(port, path="/languages")[1])[0]["code"] == "en"
        process.send_signal(sign)
        assert process.wait(60) == 0
        assert process.stderr.read() == "Stopped.\n"
        with pytest.raises(OSError, match="refused"):
            ask(port, path="/health")


def test_half_open_connections_do_not_hold_up_the_end():
    with served("street", "--port", "0") as process:
        port = port_of(process)
        several = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for number, one in enumerate(several):
            one.sendall(b"POST /api/translate HTTP/1.1\r\n"[: 10 * number])
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        for one in several:
            one.close()


def test_with_a_key_file_requests_need_a_key(tmp_path):
    (tmp_path / "keys").write_text("# of our team\n\nthe-key-of-this-test\n")
    with served("street", "--port", "0", "--api-key-file", str(tmp_path / "keys"), "--limit", "beam=2") as process:
        port = port_of(process)
        assert ask(port, {"text": "a"})[0] == 401
        key = {"authorization": "Bearer the-key-of-this-test"}
        assert ask(port, {"text": "a", "beam": 2}, **key)[0] == 200
        assert ask(port, {"text": "a", "beam": 3}, **key)[0] == 422


def refused(*arguments: str) -> str:
    """The error message of a refused command."""
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert isinstance(done.exception, GlassformerError), done.exception
    sentence = str(done.exception)
    assert sentence.endswith((".", "?"))
    return sentence


def test_a_port_in_use_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"Port {port} of 127.0.0.1 is not available" in refused("street", "--port", port)


def test_what_cannot_be_is_said_in_one_sentence(tmp_path):
    assert "There is no file or directory nowhere" in refused("nowhere", "--port", "0")
    assert "is not an address of this machine" in refused("street", "--host", "no.such.host.invalid")
    assert "is not an address of this machine. Choose another with --host" in refused("street", "--host", "192.0.2.1")
    assert "--open" in refused("street", "--host", "0.0.0.0", "--port", "0")
    assert "did you mean 'beam'?" in refused("street", "--limit", "beem=3")
    assert "NAME=NUMBER" in refused("street", "--limit", "beam")
    assert "NAME=NUMBER" in refused("street", "--limit", "beam=many")
    assert "en,de" in refused("street", "--languages", "en")
    assert "cannot be read" in refused("street", "--api-key-file", str(tmp_path / "absent"))
    (tmp_path / "short").write_text("abc\n")
    assert "guessed" in refused("street", "--api-key-file", str(tmp_path / "short"))
    (tmp_path / "none").write_text("# nothing\n")
    assert "no key" in refused("street", "--api-key-file", str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\0\0")
    assert "UTF-8" in refused("street", "--api-key-file", str(tmp_path / "bytes"))


def test_beyond_this_machine_with_keys_or_by_an_open_word(tmp_path):
    """Only that it is allowed: the server does not listen yet when the model is searched for."""
    (tmp_path / "keys").write_text("the-key-of-this-test\n")
    assert "There is no file or directory nowhere" in refused("nowhere", "--host", "0.0.0.0", "--port", "0", "--open")
    keys = ["--api-key-file", str(tmp_path / "keys")]
    assert "There is no file or directory nowhere" in refused("nowhere", "--host", "0.0.0.0", "--port", "0", *keys)


def test_without_the_extra_it_says_what_to_install():
    run_plainly("""
        import sys
        sys.modules["uvicorn"] = None
        from glassformer.cli import app
        from glassformer.errors import GlassformerError
        try:
            app(["serve", "street", "--port", "0"], standalone_mode=False)
        except GlassformerError as error:
            assert "pip install 'glassformer[serve]'" in str(error)
        else:
            raise AssertionError("it served")
    """)


def test_help_is_instant_and_without_the_web():
    run_fresh("""
        import sys
        from glassformer.cli import app
        try:
            app(["serve", "--help"])
        except SystemExit as leaving:
            assert leaving.code in (0, None)
        assert not {"torch", "fastapi", "uvicorn"} & set(sys.modules)
    """)


def test_limits_are_read_as_numbers():
    assert limits_from(["beam=8", "seconds=2.5"]) == Limits(beam=8, seconds=2.5)
    for wrong in ("beam=0", "beam=1.5", "seconds=-1", "seconds=1e999", "beam=true"):
        with pytest.raises(SettingsError):
            limits_from([wrong])


def test_the_docs_list_every_limit_as_it_is():
    """docs/serving.md lists the defaults and meanings of the settings."""
    page = (ROOT / "docs/serving.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| ([\d,.]+) \| (.+) \|$", page, re.MULTILINE)
    wanted = [(name, shown(getattr(Limits(), name)), meaning) for name, meaning in Limits.meanings().items()]
    assert listed == wanted


def shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def test_the_docs_name_every_route():
    from glassformer.server.app import make_app
    from glassformer.server.state import ServerState
    from tests.server.running import served as small

    state = ServerState(small(), Limits())
    try:
        page = (ROOT / "docs/serving.md").read_text()
        for path in make_app(state).app.openapi()["paths"]:
            assert f"`{path}" in page or f" {path}`" in page, path
    finally:
        state.close()
