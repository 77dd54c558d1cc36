"""Everything that the server's description allows is asked, and much that it does not, by schemathesis.

    python tests/web/try_description.py SCHEMATHESIS SECONDS

SCHEMATHESIS is its command, from an environment of its own: `make schema` sets it up. No answer may be our error (5xx;
503 says when to come back and is declared), and each has a status, a kind, headers and a shape that the description
names. What the description calls wrong must be refused. What it calls right may still be refused, because no schema
knows which words stand in a text or how many rows a tensor has.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

HERE = Path(__file__).parent
BOUNDS = ("--limit", "characters=2000", "--limit", "texts=16", "--limit", "traces=1000")
"""It likes to ask for the longest text there is, which takes a model its time; and no trace shall make room."""
KEY = "a-key-for-schemathesis"


def main(schemathesis: str, seconds: int) -> None:
    with TemporaryDirectory() as passing:
        keys = Path(passing) / "keys"
        keys.write_text(KEY + "\n")
        attempt(schemathesis, seconds - seconds // 5, Path(passing))
        attempt(schemathesis, seconds // 5, Path(passing), keys)


def attempt(schemathesis: str, seconds: int, folder: Path, keys: Path | None = None) -> None:
    """A server of its own, asked for so long; the folder is for what schemathesis writes down."""
    serve = [sys.executable, "-m", "glassformer", "serve", "street", "--port", "0", *BOUNDS]
    closed = [] if keys is None else ["--api-key-file", str(keys)]
    how = [] if keys is None else ["--header", f"Authorization: Bearer {KEY}", "--phases", "fuzzing", "-n", "10"]
    with subprocess.Popen([*serve, *closed], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = re.search(r"http://\S+:\d+", server.stdout.readline())
            assert said, "the server did not start"
            asked = [
                *(schemathesis, "--config-file", str(HERE / "schemathesis.toml"), "run"),
                *(f"{said[0]}/openapi.json", "--max-time", str(seconds), *how),
                "--continue-on-failure",
            ]
            subprocess.run(asked, check=True, cwd=folder)
            check(said[0])
        finally:
            server.terminate()
            told = server.communicate(timeout=30)[1]
    assert told == "Stopped.\n", told


def check(address: str) -> None:
    """It still lives, and counted no error of its own."""
    with urlopen(Request(f"{address}/metrics", headers={"authorization": f"Bearer {KEY}"})) as answer:
        counted = answer.read().decode()
    assert not re.search(r"^glassformer_errors_total", counted, re.MULTILINE), counted
    answered = re.findall(r'^glassformer_requests_total\{.*status="(\d+)"\} (\d+)$', counted, re.MULTILINE)
    totals: dict[str, int] = {}
    for status, count in answered:
        totals[status] = totals.get(status, 0) + int(count)
    told = ", ".join(f"{status}: {count:,}" for status, count in sorted(totals.items()))
    sys.stdout.write(f"Answers by status: {told}\n")


if __name__ == "__main__":
    try:
        main(str(Path(sys.argv[1]).absolute()), int(sys.argv[2]))
    except (AssertionError, subprocess.CalledProcessError) as error:
        sys.exit(f"The description is not kept: {error}")
