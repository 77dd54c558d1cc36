"""The documentation site, releases, and what other programs read about the project."""

import json
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml

import glassformer
from tests.examples import only_in_test_all
from tests.processes import ROOT, load_script, run_plainly


def git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=True).stdout


@only_in_test_all
def test_all_pages_of_the_site_are_in_its_navigation_and_their_links_lead_somewhere(tmp_path):
    site = load_script("tools/build_site.py")
    site.write_pages(tmp_path / "site")
    pages = tmp_path / "site/docs"
    listed = [name for names in site.NAVIGATION.values() for name in names]
    assert sorted(listed) == sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md"))
    for page in pages.rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for _, _, target, _ in site.LINK.findall(text):
            assert not target or "://" in target or (page.parent / target).is_file(), (page.name, target)
    python, commands = ((pages / "reference" / name).read_text() for name in ("python.md", "commands.md"))
    assert set(re.findall(r"^## (\w+)$", python, re.MULTILINE)) == set(glassformer.__all__)
    assert set(re.findall(r"^## ([\w-]+)$", commands, re.MULTILINE)) == set(command_names())
    assert "Usage: glassformer translate" in commands


def test_the_notebook_runs_from_top_to_bottom():
    notebook = json.loads((ROOT / "docs/notebooks/first-look.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    checks = """
    assert wide.changed_words == [("es", "sie"), ("müde", "breit")]
    assert without.changed_words == []
    assert trace.source[int(looked_at.argmax())] == "▁animal"
    """
    run_plainly("\n".join([*code, textwrap.dedent(checks)]))


def command_names() -> list[str]:
    from typer.main import get_command

    from glassformer.cli import app

    return get_command(app).list_commands(None)


def test_every_document_has_its_place_on_the_site():
    site = load_script("tools/build_site.py")
    listed = {name for names in site.NAVIGATION.values() for name in names}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= listed


@pytest.fixture
def project(tmp_path):
    for name in load_script("tools/release.py").PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    git("init", "--quiet", cwd=tmp_path)
    git("config", "user.name", "x", cwd=tmp_path)
    git("config", "user.email", "x@example.org", cwd=tmp_path)
    git("add", ".", cwd=tmp_path)
    git("commit", "--quiet", "-m", "x", cwd=tmp_path)
    return tmp_path


def test_a_release_sets_the_version_everywhere_and_commits_it(project):
    release = load_script("tools/release.py")
    release.main("3.2.1", project)
    assert '__version__ = "3.2.1"' in (project / "src/glassformer/__init__.py").read_text()
    assert yaml.safe_load((project / "CITATION.cff").read_text())["version"] == "3.2.1"
    assert re.search(r"^## Unreleased\n\n## 3.2.1 \(\d{4}-\d\d-\d\d\)$", (project / "CHANGELOG.md").read_text(), re.M)
    assert git("status", "--porcelain", cwd=project) == ""
    assert git("log", "-1", "--format=%s", cwd=project) == "Version 3.2.1\n"
    release.main("3.2.2", project)
    git("tag", "v3.2.3", cwd=project)
    with pytest.raises(SystemExit, match="exists already"):
        release.main("3.2.3", project)


@pytest.mark.parametrize("version", ["", "1.0", "v1.0.0", "1.0.0rc1", "1.0.0 ; x"])
def test_a_wrong_version_changes_nothing(project, version):
    with pytest.raises(SystemExit, match="is not a version"):
        load_script("tools/release.py").main(version, project)
    assert git("status", "--porcelain", cwd=project) == ""


def test_changes_that_are_not_committed_stop_a_release(project):
    (project / "CHANGELOG.md").write_text("x")
    with pytest.raises(SystemExit, match="Commit them first"):
        load_script("tools/release.py").main("9.0.0", project)
    assert (project / "CHANGELOG.md").read_text() == "x"


def test_the_citation_has_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == glassformer.__version__
    assert (citation["license"], citation["title"]) == ("Apache-2.0", "Glassformer")


def test_workflows_and_hooks_call_what_exists():
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set()
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            used |= {name for step in job["steps"] for name in re.findall(r"make ([a-z-]+)", step.get("run", ""))}
    assert {"check", "frontend-check", "test", "demo", "site"} <= used <= targets
    for hook in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")
