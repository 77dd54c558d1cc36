"""Structure of the repository: import directions, public names, README and docs, and what importing loads."""

import ast
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer import load_model
from glassformer.builtin import street
from glassformer.interop.hugging_face import write_hugging_face
from tests.examples import ALL, cases
from tests.processes import ROOT, load_script, run_fresh, run_plainly
from tests.processes import glassformer as run_command
from tests.small_translator import saved

SOURCE = ROOT / "src" / "glassformer"
SLOW = ("glassformer train", "glassformer bench")


def allowed_imports() -> dict[str, set[str]]:
    """The table of docs/map.md: package -> the packages it may import."""
    table = (ROOT / "docs/map.md").read_text().split("Inside `model`")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([`\w, ]+) \|", table, re.MULTILINE)
    return {package: set(re.findall(r"`(\w+)`", allowed)) for package, allowed in rows}


def imported_packages(file: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(file.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports are not used"
            modules = [node.module]
        packages |= {module.split(".")[1] for module in modules if module.startswith("glassformer.")}
    return packages


def test_packages_import_only_packages_below_them():
    allowed = allowed_imports()
    for file in SOURCE.rglob("*.py"):
        package = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if package in ("__init__", "__main__"):
            continue  # the entry points may import every package
        assert package in allowed, f"docs/map.md has no row for the package {package}"
        forbidden = imported_packages(file) - allowed[package] - {package}
        assert not forbidden, f"{file.relative_to(ROOT)} imports {forbidden}"


def test_imports_point_one_way():
    allowed = allowed_imports()
    below: set[str] = set()
    for package in reversed(allowed):  # the table is written from the top down
        assert allowed[package] <= below, package
        below.add(package)


COMMANDS = {"figure", "street", "trace", "what_if"}
"""Modules of cli that are named after what they run."""


def test_no_module_name_is_used_twice():
    """One word, one meaning: a module's name says which package it is in."""
    files = [file for file in SOURCE.rglob("*.py") if not file.name.startswith("__")]
    packages = [file.parent for file in SOURCE.rglob("__init__.py")]
    names = Counter(path.stem for path in (*files, *packages))
    assert {name for name, count in names.items() if count > 1} == COMMANDS


def test_no_public_class_name_is_used_twice():
    classes = Counter(
        node.name
        for file in SOURCE.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


@pytest.mark.parametrize("word", ["whoever", "how-manieth", "the seeds", "seed's question"])
def test_riddles_do_not_return(word):
    """Words of ours that no reader knew; see CONTRIBUTING.md."""
    places = [ROOT / "src", ROOT / "docs", ROOT / "recipes", ROOT / "frontend/src", ROOT / "README.md"]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    texts = {
        file: file.read_text() for file in files if file.suffix in (".py", ".md", ".toml", ".ts", ".svelte", ".h", ".c")
    }
    assert [str(file) for file, text in texts.items() if re.search(rf"\b{word}\b", text, re.IGNORECASE)] == []


@pytest.mark.parametrize("package", ["transformers", "beartype", "hypothesis", "pytest"])
def test_packages_for_tests_are_not_imported_by_the_source(package):
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == package for name in names), file


def test_names_md_is_what_the_model_has():
    """If this fails, a parameter or tap was renamed. Parameter names are a file format: think, then `make names`."""
    write_names = load_script("docs/write_names.py")
    assert write_names.PAGE.read_text() == write_names.page()


def test_names_md_lists_every_name_of_the_tiny_preset():
    """Compares the page itself with the model, without the script that writes it."""
    from glassformer.model import Transformer, preset, taps

    model = Transformer(preset("tiny"))
    page = (ROOT / "docs/names.md").read_text()
    listed = []
    for name in re.findall(r"^\| `([\w.{}-]+)` \|", page, re.MULTILINE):
        layers = re.search(r"\{0-(\d+)\}", name)
        listed += [name.replace(layers[0], str(i)) for i in range(int(layers[1]) + 1)] if layers else [name]
    names = [name for name, _ in model.named_parameters()] + list(taps(model))
    assert sorted(listed) == sorted(names)


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def shell_commands(page: str) -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh", page) for line in block.splitlines()]
    return [line for line in lines if line]


def documented_uses() -> list[Any]:
    """Uses of the command by task; `make test-all` also runs slow ones, and those of a reader's first steps."""
    uses = [line for line in shell_commands("docs/commands.md") if line.startswith("glassformer")]
    more = [use for use in uses if use.startswith(SLOW)]
    first = [use for use in shell_commands("docs/learning-path.md") if use not in uses and use != "glassformer demo"]
    return cases(*(use for use in uses if use not in more), more=more + first)


@pytest.mark.parametrize("command", documented_uses())
def test_the_documented_commands_work(command, tmp_path):
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
    if not command.startswith("glassformer train"):  # which creates it
        saved(tmp_path / "runs/mine/best-1")
    fewer = ["--rounds", "1"] if command.startswith("glassformer bench") else []  # minutes on a busy machine
    done = run_command(*shlex.split(command)[1:], *fewer, cwd=tmp_path, fresh=ALL)
    assert done.returncode == 0, done.stderr
    reports = ("train", "align", "score")
    assert done.stderr == "" or command.split()[1] in reports
    assert done.stdout


def test_the_readmes_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = {line.split()[1] for line in shell_commands("README.md") if line.startswith("make ")}
    assert {"demo", "test"} <= used <= targets


def shown_outputs() -> list[tuple[str, str]]:
    """Commands and what they print, of all documents, but for `train`: its times and sizes depend on the machine."""
    pages = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
    text = "".join("".join(blocks("console", page)) for page in pages)
    shown = re.findall(r"^\$ (glassformer .*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    return sorted({(command, output) for command, output in shown if not command.startswith(SLOW)})


@pytest.mark.parametrize(("command", "output"), shown_outputs())
def test_the_documents_show_what_commands_print(command, output):
    done = run_command(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(output.removesuffix("...\n"))
    assert output.endswith("...\n") or done.stdout == output


def test_the_readmes_python_runs(tmp_path):
    examples = [block for block in blocks("python") if "import glassformer" in block]
    assert examples
    for example in examples:
        run_plainly(f"import os; os.chdir({str(tmp_path)!r})\n" + example)


@pytest.mark.parametrize("page", sorted(page.name for page in (ROOT / "docs").glob("*.md")))
def test_the_python_of_the_docs_runs(page, tmp_path):
    """All examples of a page in one process, since later ones may use the results of earlier ones."""
    text = (ROOT / "docs" / page).read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if examples:
        run_plainly(f"import os; os.chdir({str(tmp_path)!r})\n" + "\n".join(examples))


def test_the_readmes_answer_is_the_code():
    """The README's lines of code that answer its question are verbatim in the source."""
    code = "".join((SOURCE / "model" / name).read_text() for name in ("attention.py", "decoder.py"))
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
    assert dir(glassformer) == sorted(glassformer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        glassformer.nonsense  # noqa: B018


def test_no_module_takes_the_place_of_a_public_name():
    """Importing a submodule sets an attribute of its name, which would replace the function."""
    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & {*glassformer.__all__}
    assert sorted(glassformer._MODULES) == glassformer.__all__
    [checked] = [node for node in ast.parse((SOURCE / "__init__.py").read_text()).body if isinstance(node, ast.If)]
    typed = [alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(typed) == glassformer.__all__


def test_importing_glassformer_brings_few_packages():
    """With torch already imported; benchmarks/import_time.py measures the time."""
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
        commands = [[], *([name] for name in get_command(app).list_commands(None))]
        assert len(commands) > 15
        for arguments in [*([*command, "--help"] for command in commands), ["--version"]]:
            try:
                app(arguments)
            except SystemExit as leaving:
                assert leaving.code in (0, None), arguments
        assert "torch" not in sys.modules
    """)


def test_glassformer_imports_no_heavy_third_party_packages():
    run_fresh("""
        import sys
        import glassformer
        for name in glassformer.__all__:
            getattr(glassformer, name)
        for package in ("transformers", "pandas", "beartype", "matplotlib", "torch._dynamo", "torchvision"):
            assert package not in sys.modules, package
    """)


def test_the_files_of_a_change_exist():
    """docs/extending.md names at most five files per change (some are needed only for more), and they are there."""
    sections = re.split(r"^## ", (ROOT / "docs/extending.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) == 6
    for section in sections:
        rows = re.findall(r"^\| (`.*?`.*?) \| (.*) \|$", section, re.MULTILINE)
        files = [(path, "only" in change) for cell, change in rows for path in re.findall(r"`([^`]+)`", cell)]
        assert 2 <= sum(not optional for _, optional in files) <= 5, section
        for path, _ in files:
            assert any((base / path.split("<")[0]).exists() for base in (ROOT, SOURCE)), path
