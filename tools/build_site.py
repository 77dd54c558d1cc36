"""Build the documentation site: the pages of docs/, a reference made from docstrings and --help, as static files.

The pages are written for reading in the repository, too. Here links to files that are not pages become links to the
repository's address, or plain text as long as the project has none. Nothing is loaded from other sites.

    python tools/build_site.py dist/pages         write the pages and zensical.toml, without building them
    python tools/build_site.py dist/pages --build and build the site from them, into dist/pages/site (`make site`)
"""

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REPOSITORY = ""
"""The address of the repository's files, ending in /, for links to code. The project has no public address yet."""
NAVIGATION: dict[str, list[str]] = {
    "Start": ["index.md", "commands.md", "learning-path.md"],
    "Understand": [
        "multi-head-attention.md",
        "decoder-keys-and-values.md",
        "pronoun-resolution.md",
        "figures/README.md",
        "model.md",
        "coming-from-the-tutorial.md",
        "coming-from-bertviz.md",
    ],
    "Train": ["training.md", "data.md"],
    "Translate": ["python.md", "translating.md", "coming-from-pipeline.md", "converting.md"],
    "Serve": ["serving.md", "operating.md"],
    "Look inside": ["inspecting.md", "explorer.md", "names.md"],
    "Reference": ["reference/python.md", "reference/commands.md", "reference/training-options.md"],
    "Project": [
        "results.md",
        "reliability.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "map.md",
        "extending.md",
        "decisions.md",
        "CHANGELOG.md",
    ],
}
"""All pages in the order of the site's navigation."""
OUTSIDE = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages that are not in docs/."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)]*)?\)")
SETTINGS = """[project]
site_name = "Glassformer"
site_description = "The encoder-decoder Transformer you can train, run fast, and see through."
use_directory_urls = false
nav = {navigation}

[project.theme]
font = false
features = ["content.code.copy", "navigation.footer", "navigation.sections", "navigation.top", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"

[project.markdown_extensions]
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {{}}
pymdownx.superfences = {{}}
"""


def write_pages(folder: Path) -> None:
    """Write all pages, their pictures and the generator's settings into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in OUTSIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        (pages / ("index.md" if name == "README.md" else name)).write_text(text, encoding="utf-8")
    (pages / "reference").mkdir()
    for name, text in reference().items():
        (pages / "reference" / name).write_text(text, encoding="utf-8")
    for page in pages.rglob("*.md"):
        page.write_text(_with_own_links(page, pages), encoding="utf-8")
    navigation = json.dumps([{title: names} for title, names in NAVIGATION.items()], indent=2)
    toml = re.sub(r'\{\s*("[^"]+"): (\[[^\]]*\])\s*\}', r"{ \1 = \2 }", navigation)
    (folder / "zensical.toml").write_text(SETTINGS.format(navigation=toml), encoding="utf-8")


def _with_own_links(page: Path, pages: Path) -> str:
    """The page's text, whose links lead to pages of the site, to the repository, or nowhere."""

    def replaced(match: re.Match[str]) -> str:
        picture, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if not target or "://" in target or (page.parent / target).resolve().is_file():
            return match[0]
        name = Path(target).name
        if name in OUTSIDE:  # its page is at the top
            there = os.path.relpath(pages / ("index.md" if name == "README.md" else name), page.parent)
            return f"{picture}[{text}]({there}{anchor})"
        if not REPOSITORY:
            return text
        inside = (ROOT / "docs" / page.relative_to(pages).parent / target).resolve()
        if not inside.exists():  # a link of the README, from the top
            inside = ROOT / target
        return f"[{text}]({REPOSITORY}{os.path.relpath(inside, ROOT)}{anchor})"

    parts = re.split(r"(^```.*?^```)", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def reference() -> dict[str, str]:
    """The pages made from the package: its public names, its commands, the options of training."""
    return {
        "python.md": _python_reference(),
        "commands.md": _command_reference(),
        "training-options.md": "# Options of training\n\nAs printed by `glassformer train --options`; each is an entry "
        "of `run.toml`, or `--set NAME=VALUE`.\n\n```\n" + _printed("train", "--options") + "```\n",
    }


def _python_reference() -> str:
    package = importlib.import_module("glassformer")
    public = {name: getattr(package, name) for name in package.__all__}
    parts = [
        "# Python\n\nEverything that `import glassformer as gf` offers, functions first. The tests run the examples; "
        "[Python](../python.md) says how it is used.\n"
    ]
    for name, value in sorted(public.items(), key=lambda item: (inspect.isclass(item[1]), item[0])):
        parts.append(f"## {name}\n")
        if options := getattr(value, "model_fields", None):
            parts += [_as_markdown(inspect.getdoc(value) or ""), _table_of(options)]
            continue
        parts += [_declaration(name, value), _as_markdown(inspect.getdoc(value) or "")]
        if inspect.isclass(value) and not issubclass(value, Exception):
            for member, method in vars(value).items():
                if not member.startswith("_") and inspect.isroutine(method) and (doc := inspect.getdoc(method)):
                    parts += [f"### {name}.{member}\n", _declaration(member, method), _as_markdown(doc)]
    return "\n".join(f"{part}\n" for part in parts)


def _table_of(options: dict[str, Any]) -> str:
    """Options with their defaults and meanings."""
    rows = ["| option | unless given | meaning |", "|---|---|---|"]
    for name, option in options.items():
        default = "required" if option.is_required() else f"`{option.get_default(call_default_factory=True)!r}`"
        meaning = " ".join((option.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{name}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _declaration(name: str, value: Any) -> str:
    return f"```python\n{_signature(name, value)}\n```\n"


def _signature(name: str, value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"(?:glassformer|collections|jaxtyping|typing|pathlib|os|torch)(?:\.\w+)*\.(\w+)", r"\1", text)
    text = re.sub(r"\*<class '(\w+)'>", r"\1", re.sub(r"\(self(?:, )?", "(", text))
    return f"{name}{text}" if len(name + text) <= 100 else f"{name}(\n    " + ",\n    ".join(_split(text)) + ",\n)"


def _split(signature: str) -> list[str]:
    """The parameters of a signature, split at the commas that are in no brackets; the result type is left out."""
    parts, depth, start = [], 0, 1
    for place, character in enumerate(signature):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return [part.strip() for part in (*parts, signature[start:place]) if part.strip()]
        if character == "," and depth == 1:
            parts.append(signature[start:place])
            start = place + 1
    return [signature]


def _as_markdown(docstring: str) -> str:
    """A docstring whose examples are blocks of Python."""
    return re.sub(r"((?:^(?:>>>|\.\.\.).*\n?)(?:^\S.*\n?)*)", r"```python\n\1\n```\n", docstring, flags=re.MULTILINE)


def _command_reference() -> str:
    from typer.main import get_command

    from glassformer.cli import app

    names = get_command(app).list_commands(None)
    parts = ["# Commands\n\nWhat `glassformer COMMAND --help` prints.\n"]
    parts += [f"## {name}\n\n```\n{_printed(name, '--help')}```\n" for name in names]
    return "\n".join(parts)


def _printed(*arguments: str) -> str:
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'glassformer'; from glassformer.cli import main; sys.exit(main())",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_pages(target)
    if "--build" in sys.argv:
        subprocess.run([shutil.which("zensical") or "zensical", "build", "--clean"], cwd=target, check=True)
        print(f"The site is in {target / 'site'}: start with index.html.")
