"""Everything that the server's description allows is asked, and much that it does not, by schemathesis.

It has an environment of its own, .venv-schema, because it brings a plugin into every pytest beside it; `make test-all`
and `make schema` make it. No answer may be our error (5xx; 503 says when to come back and is declared), and each has a
status, a kind, headers and a shape that the description names. What the description calls wrong must be refused. What
it calls right may still be refused: no schema knows which words stand in a text or how many rows a tensor has.
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
"""It likes to ask for the longest text there is, which takes a model its time; and no trace shall make room."""
KEY = "a-key-for-schemathesis"

pytestmark = [
    only_in_test_all,
    pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="there is no .venv-schema: `make schema` makes it"),
]


def test_without_keys(tmp_path):
    attempt(SECONDS - SECONDS // 5, tmp_path)


def test_with_keys(tmp_path):
    (tmp_path / "keys").write_text(KEY + "\n")
    own = ["--header", f"Authorization: Bearer {KEY}", "--phases", "fuzzing", "-n", "10"]
    attempt(SECONDS // 5, tmp_path, ["--api-key-file", str(tmp_path / "keys")], own)


def attempt(seconds: int, folder: Path, closed: list[str] | None = None, own: list[str] | None = None) -> None:
    """A server of its own, asked for so long; the folder is for what schemathesis writes down."""
    serve = [sys.executable, "-m", "glassformer", "serve", "street", "--port", "0", *BOUNDS, *(closed or [])]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = re.search(r"http://\S+:\d+", server.stdout.readline())
            assert said, "the server did not start"
            asked = [
                *(SCHEMATHESIS, "--config-file", str(HERE / "schemathesis.toml"), "run"),
                *(f"{said[0]}/openapi.json", "--max-time", str(seconds), "--seed", str(SEED), *(own or [])),
                "--continue-on-failure",
            ]
            done = subprocess.run(asked, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert done.returncode == 0, done.stdout[-8000:]
            check(said[0])
        finally:
            server.terminate()
            told = server.communicate(timeout=30)[1]
    assert told == "Stopped.\n", told


def check(address: str) -> None:
    """It still lives, answered much, and counted no error of its own."""
    with urlopen(Request(f"{address}/metrics", headers={"authorization": f"Bearer {KEY}"})) as answer:
        counted = answer.read().decode()
    assert not re.search(r"^glassformer_errors_total", counted, re.MULTILINE), counted
    answered = re.findall(r'^glassformer_requests_total\{.*status="(\d+)"\} (\d+)$', counted, re.MULTILINE)
    assert {"200", "422"} <= {status for status, _ in answered}, counted
