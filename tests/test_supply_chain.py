"""The lock files, their hashes, and the bill of materials."""

import re
import subprocess
import sys

import pytest

from tests.processes import ROOT, load_script

LOCKS = [
    "requirements.lock",
    "tools/build.lock",
    "tools/dev.lock",
    "tools/site.lock",
    "tests/browser/notebook.lock",
    "tests/server/schemathesis.lock",
]
LOCKS += ["tests/fuzz/atheris.lock"]
ENTRY = re.compile(r"[\w.-]+==\S+(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")


@pytest.mark.parametrize("path", LOCKS)
def test_every_locked_version_has_hashes(path):
    text = (ROOT / path).read_text()
    assert "".join(match[0] for match in ENTRY.finditer(text)) == text
    assert "torch" not in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)  # pinned in the Makefile, without a hash


def test_setup_checks_the_hashes():
    """A package with another hash is refused by the options that `make setup` gives to pip."""
    makefile = (ROOT / "Makefile").read_text()
    options = re.search(r"^HASHED := (.*)$", makefile, re.MULTILINE)[1]
    assert "--require-hashes" in options
    assert re.findall(r"pip install(?!.*(PIP_INSTALL|--quiet))", makefile) == []
    assert makefile.count("$(HASHED)") == len(LOCKS)


def test_pip_refuses_another_hash(tmp_path):
    """With a file that is on this machine, so without the registry."""
    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not the locked file")
    (tmp_path / "some.lock").write_text(f"nothing==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    options = ["--quiet", "--no-deps", "--prefer-binary", "--require-hashes", "--no-index", "--isolated"]
    command = [sys.executable, "-m", "pip", "install", *options, "--find-links", tmp_path, "-r", tmp_path / "some.lock"]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False, text=True)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def bill():
    return load_script("tools/write_sbom.py").bill_of_materials()


def test_the_bill_of_materials_lists_every_dependency():
    document = bill()
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "glassformer"
    components = {component["bom-ref"]: component for component in document["components"]}
    known = {*components, document["metadata"]["component"]["bom-ref"]}
    assert {entry["ref"] for entry in document["dependencies"]} == known
    assert all({*entry["dependsOn"]} <= known for entry in document["dependencies"])
    own = document["dependencies"][0]["dependsOn"]
    assert {re.split("[/@]", one)[1] for one in own} >= {"numpy", "pydantic", "safetensors", "sentencepiece", "typer"}
    assert {"torch", "sacrebleu", "fastapi"} <= {one["name"] for one in components.values()}  # of the extras
    numpy = next(one for one in components.values() if one["name"] == "numpy")
    assert numpy["properties"]
    assert numpy["licenses"]


def test_the_security_policy_names_what_exists():
    text = (ROOT / "SECURITY.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name.removeprefix("make ") for name in re.findall(r"make [a-z-]+", text)} <= targets
    for path in re.findall(r"\]\(([^)]+)\)|`(tests/[\w/.]+)`", text):
        assert (ROOT / (path[0] or path[1])).exists(), path
