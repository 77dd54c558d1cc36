"""Tries an installed wheel: every library that this processor runs, the commands, and what the environment takes.

`--list` only prints the names of the libraries. The commands `evaluate` and `serve` are tried where their extras are
installed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import glassformer
from glassformer.engine.native_library import runnable

TEXT = "The dog was too tired."
CODE = f"""
import glassformer
from glassformer.engine.native_library import loaded
answer = glassformer.load("street")("{TEXT}")
assert answer.startswith("Der Hund"), answer
print(loaded().instruction_set, loaded().digest, loaded().functions._name)
"""
ENVIRONMENT = os.environ | {"GLASSFORMER_COMPILER": ""}  # nothing is compiled here
COMMAND = [sys.executable, "-m", "glassformer"]


def main() -> None:
    names = [each.name for each, _ in runnable()]
    if not names:
        sys.exit("There is no library of the C engine that this processor runs.")
    if "--list" in sys.argv:
        print(*names, sep="\n")
        return
    for name in names:
        subprocess.run([sys.executable, "-c", CODE], check=True, env=ENVIRONMENT | {"GLASSFORMER_ISA": name})
    with tempfile.TemporaryDirectory() as directory:
        try_commands(Path(directory))
    packages = list(distributions())
    site = Path(glassformer.__file__).parents[1]
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    print(f"{len(packages)} packages, {size / 1e6:.0f} MB in {site}, without compiled Python files.")


def try_commands(directory: Path) -> None:
    """Translate and score; evaluate and serve, if they can run."""
    source, target = directory / "source.txt", directory / "target.txt"
    source.write_text(f"{TEXT}\n")
    target.write_text(run("translate", "street", source))
    assert target.read_text().startswith("Der Hund")
    print("translate and score:", run("score", "street", "--source", source, "--target", target).split()[0])
    if find_spec("sacrebleu"):
        print("evaluate:", run("evaluate", "street", "--source", source, "--reference", target).splitlines()[0])
    if find_spec("uvicorn"):
        print("serve:", try_server())


def run(*arguments: str | Path) -> str:
    done = subprocess.run([*COMMAND, *map(str, arguments)], check=True, env=ENVIRONMENT, stdout=subprocess.PIPE)
    return done.stdout.decode()


def try_server() -> str:
    """What a server on a free port of this machine answers."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*COMMAND, "serve", "street", "--port", str(port)], env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/translate",
        json.dumps({"text": TEXT}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        for _ in range(100):
            try:
                with urllib.request.urlopen(request, timeout=10) as response:
                    return str(json.load(response)["translations"][0]["text"])
            except OSError:
                time.sleep(0.2)
        sys.exit("The server did not answer within twenty seconds.")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
