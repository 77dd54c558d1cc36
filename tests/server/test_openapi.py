"""Schemathesis: requests generated from the OpenAPI description, valid and invalid ones.

It has its own environment, .venv-schema, because it adds a plugin to every pytest in the same one; `make test-all` and
`make schema` create it. No response may be a server error (5xx, except a declared 503 with Retry-After), and each has a
status, content type, headers and shape that the description declares. Requests that the description calls invalid must
be refused. Valid ones may still be refused: no schema knows which words a text has or how many rows a tensor has.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.examples import SEED, only_in_test_all
from tests.processes import ROOT

HERE = Path(__file__).parent
SCHEMATHESIS = ROOT / ".venv-schema/bin/schemathesis"
SECONDS = int(os.environ.get("GLASSFORMER_SCHEMA_SECONDS", "60"))
BOUNDS = ("--limit", "characters=2000", "--limit", "texts=16", "--limit", "traces=1000")
"""It tends to send the longest text allowed, which is slow to translate; and no trace may be evicted."""
KEY = "a-key-for-schemathesis"

pytestmark = [
    only_in_test_all,
    pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="there is no .venv-schema; `make schema` creates it"),
]


def test_without_keys(tmp_path):
    attempt(SECONDS - SECONDS // 5, tmp_path)


def test_with_keys(tmp_path):
    (tmp_path / "keys").write_text(KEY + "\n")
    options = ["--header", f"Authorization: Bearer {KEY}", "--phases", "fuzzing", "-n", "10"]
    attempt(SECONDS // 5, tmp_path, ["--api-key-file", str(tmp_path / "keys")], options)


def attempt(
    seconds: int, folder: Path, serve_options: list[str] | None = None, options: list[str] | None = None
) -> None:
    """Run schemathesis for this long on a new server; it writes its files into the folder."""
    serve = [sys.executable, "-m", "glassformer", "serve", "street", "--port", "0", *BOUNDS, *(serve_options or [])]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+:\d+", server.stdout.readline())
            assert address, "the server did not start"
            command = [
                *(SCHEMATHESIS, "--config-file", str(HERE / "schemathesis.toml"), "run"),
                *(f"{address[0]}/openapi.json", "--max-time", str(seconds), "--seed", str(SEED), *(options or [])),
                "--continue-on-failure",
            ]
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert done.returncode == 0, done.stdout[-8000:]
            check(address[0])
        finally:
            server.terminate()
            stderr = server.communicate(timeout=30)[1]
    assert stderr == "Stopped.\n", stderr


def check(address: str) -> None:
    """The server is still up, answered requests, and counted no internal error."""
    with urlopen(Request(f"{address}/metrics", headers={"authorization": f"Bearer {KEY}"})) as answer:
        metrics = answer.read().decode()
    assert not re.search(r"^glassformer_errors_total", metrics, re.MULTILINE), metrics
    answered = re.findall(r'^glassformer_requests_total\{.*status="(\d+)"\} (\d+)$', metrics, re.MULTILINE)
    assert {"200", "422"} <= {status for status, _ in answered}, metrics
