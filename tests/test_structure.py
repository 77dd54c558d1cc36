"""The house itself: import directions, names, the README, and how fast the door opens."""

import ast
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer import load_model
from glassformer.builtin import street
from glassformer.interop.hugging_face import write_hugging_face
from tests.examples import ALL, cases
from tests.processes import ROOT, run_fresh, run_plainly
from tests.processes import glassformer as run_command
from tests.small_translator import saved

SOURCE = ROOT / "src" / "glassformer"
SLOW = ("glassformer train", "glassformer bench")


def rooms() -> dict[str, set[str]]:
    """What docs/map.md allows: room -> the rooms it may import."""
    table = (ROOT / "docs/map.md").read_text().split("Inside `model`")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([`\w, ]+) \|", table, re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows}


def imported_rooms(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written out"
            modules = [node.module]
        found |= {module.split(".")[1] for module in modules if module.startswith("glassformer.")}
    return found


def test_rooms_import_only_rooms_below_them():
    allowed = rooms()
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue  # the front doors know every room
        assert room in allowed, f"docs/map.md does not know the room {room}"
        beyond = imported_rooms(file) - allowed[room] - {room}
        assert not beyond, f"{file.relative_to(ROOT)} imports {beyond}"


def test_the_arrows_point_one_way():
    allowed = rooms()
    below: set[str] = set()
    for room in reversed(allowed):  # the table is written from the top down
        assert allowed[room] <= below, room
        below.add(room)


@pytest.mark.parametrize("package", ["transformers", "beartype", "hypothesis", "pytest"])
def test_what_serves_the_tests_stays_out_of_the_source(package):
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == package for name in names), file


def test_names_md_is_what_the_model_has():
    """If this fails, a parameter or tap changed its name. Parameters are a file format: think, then `make names`."""
    spec = importlib.util.spec_from_file_location("write_names", ROOT / "docs/write_names.py")
    write_names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_names)
    assert write_names.PAGE.read_text() == write_names.page()


def test_names_md_lists_every_name_of_the_tiny_preset():
    """The page itself, unfolded, against the model: not what the script says of it."""
    from glassformer.model import Transformer, preset, taps

    model = Transformer(preset("tiny"))
    page = (ROOT / "docs/names.md").read_text()
    listed = []
    for name in re.findall(r"^\| `([\w.{}-]+)` \|", page, re.MULTILINE):
        layers = re.search(r"\{0-(\d+)\}", name)
        listed += [name.replace(layers[0], str(i)) for i in range(int(layers[1]) + 1)] if layers else [name]
    names = [name for name, _ in model.named_parameters()] + list(taps(model))
    assert sorted(listed) == sorted(names)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def readme_commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def readme_uses() -> list[Any]:
    """Each use of our command; those that take half a minute are for `make test-all`."""
    uses = [line for line in readme_commands() if line.startswith("glassformer")]
    return cases(*(use for use in uses if not use.startswith(SLOW)), more=[use for use in uses if use.startswith(SLOW)])


@pytest.mark.parametrize("command", readme_uses())
def test_the_readmes_commands_work(command, tmp_path):
    pairs = list(street.sentences("train", 40))
    (tmp_path / "train.en").write_text("".join(f"{pair.source}\n" for pair in pairs) + "\n")
    (tmp_path / "train.de").write_text("".join(f"{pair.target}\n" for pair in pairs) + "Ein Satz zu viel.\n")
    for name, lines in (("test.en", [p.source for p in pairs[:9]]), ("test.de", [p.target for p in pairs[:9]])):
        (tmp_path / name).write_text("\n".join(lines))
    (tmp_path / "input.txt").write_text(pairs[0].source)
    if command.startswith("glassformer convert"):
        theirs = load_model(saved(tmp_path / "small"))
        (tmp_path / "opus-mt-en-de").mkdir()
        write_hugging_face(theirs, None, tmp_path / "opus-mt-en-de")
    if not command.startswith("glassformer train"):  # which makes it
        saved(tmp_path / "runs/mine/best-1")
    done = run_command(*shlex.split(command)[1:], cwd=tmp_path, fresh=ALL)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or command.split()[1] in ("train", "align")  # which tell how it goes, and what it comes to
    assert done.stdout


def test_the_readmes_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = {line.split()[1] for line in readme_commands() if line.startswith("make ")}
    assert {"demo", "test"} <= used <= targets


def test_the_readmes_python_runs(tmp_path):
    examples = [block for block in blocks("python") if "import glassformer" in block]
    assert examples
    for example in examples:
        run_plainly(f"import os; os.chdir({str(tmp_path)!r})\n" + example)


@pytest.mark.parametrize("page", sorted(page.name for page in (ROOT / "docs").glob("*.md")))
def test_the_python_of_the_docs_runs(page, tmp_path):
    """All of a page in one go: what one example made, the next may use."""
    text = (ROOT / "docs" / page).read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if examples:
        run_plainly(f"import os; os.chdir({str(tmp_path)!r})\n" + "\n".join(examples))


def test_the_readmes_answer_is_the_code():
    """The lines that answer the question stand in the source as they stand in the README."""
    code = "".join((SOURCE / "model" / name).read_text() for name in ("attention.py", "decoder.py", "layers.py"))
    lines = [line.split("#")[0].strip() for line in blocks("python")[0].splitlines()]
    assert all(line in code for line in lines)
    assert len([line for line in lines if line]) >= 3


def test_the_readmes_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")))
def test_the_links_of_the_docs_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / page).parent.joinpath(link).exists(), link


def test_every_public_name_can_be_had():
    for name in glassformer.__all__:
        assert getattr(glassformer, name) is not None
        assert name in dir(glassformer)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        glassformer.nonsense  # noqa: B018


def test_importing_glassformer_brings_few_packages():
    """With torch already there; benchmarks/import_time.py says how long it takes."""
    brought = run_fresh("""
        import sys
        import torch
        before = set(sys.modules)
        import glassformer
        for name in glassformer.__all__:
            getattr(glassformer, name)
        packages = {name.split(".")[0] for name in set(sys.modules) - before}
        print(*sorted(name for name in packages - sys.stdlib_module_names if not name.startswith("_")))
    """)
    known = {"annotated_types", "glassformer", "jaxtyping", "numpy", "pydantic", "pydantic_core", "safetensors"}
    assert set(brought.split()) <= known | {"sentencepiece", "typing_inspection", "typing_extensions"}


def test_help_never_imports_torch():
    run_fresh("""
        import sys
        from glassformer.cli import app
        from typer.main import get_command
        commands = [[], *([name] for name in get_command(app).commands)]
        assert len(commands) > 15
        for arguments in [*([*command, "--help"] for command in commands), ["--version"]]:
            try:
                app(arguments)
            except SystemExit as leaving:
                assert leaving.code in (0, None), arguments
        assert "torch" not in sys.modules
    """)


def test_glassformer_brings_no_heavy_strangers():
    run_fresh("""
        import sys
        import glassformer
        for name in glassformer.__all__:
            getattr(glassformer, name)
        for stranger in ("transformers", "pandas", "beartype", "matplotlib", "torch._dynamo", "torchvision"):
            assert stranger not in sys.modules, stranger
    """)
