"""Pictures of every step of the explorer: light and dark, wide and narrow.

`make pictures` writes the light, wide ones that a page of the docs shows to docs/explorer.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from glassformer.server.translation_service import open_served_model
from tests.browser.driving import ROOT, drive, needs_chromium
from tests.server.running import running

pytestmark = needs_chromium
IN_DOCS = ROOT / "docs" / "explorer"
START = {"hash": "#v=sentence&q=10&h=1"}
"""With "it" selected."""
SHOWN = {
    "What if": {"w": '[{"kind":"replace-word","old":"tired","new":"wide"}]'},
    "Pronoun resolution": {"pronoun": "it", "i": "tired=wide"},
}
"""Additional selection for screens that show little without it."""
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 390)}


@pytest.fixture(scope="module")
def port():
    with running(open_served_model("street")) as server:
        yield server.port


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def hash_of(step: dict) -> str:
    return step["hash"] + "".join(f"&{key}={quote(text)}" for key, text in SHOWN.get(step["title"], {}).items())


@pytest.mark.parametrize("look", LOOKS)
def test_every_step_is_a_picture(port, look, tmp_path):
    """A picture of a blank page has only a few kilobytes; the content is reviewed by eye."""
    scheme, width = LOOKS[look]
    steps = drive(port, "steps", START)
    views = [
        {
            "hash": hash_of(step),
            "scheme": scheme,
            "width": width,
            "path": str(tmp_path / f"{slug(step['title'])}.webp"),
        }
        for step in steps
    ]
    drive(port, "pictures", views)
    for view in views:
        assert Path(view["path"]).stat().st_size > 8_000, view["path"]


@pytest.mark.skipif("GLASSFORMER_PICTURES" not in os.environ, reason="`make pictures` runs it")
def test_write_the_pictures_of_the_docs(port):
    scheme, width = LOOKS["light"]
    IN_DOCS.mkdir(exist_ok=True)
    for path in IN_DOCS.glob("*.webp"):
        path.unlink()
    views = [
        {"hash": hash_of(step), "scheme": scheme, "width": width, "path": str(IN_DOCS / name)}
        for step in drive(port, "steps", START)
        if (name := f"{slug(step['title'])}.webp") in shown_in_docs()
    ]
    drive(port, "pictures", views)


def test_the_docs_show_every_picture_of_theirs(port):
    """Pictures are named after the steps, so that a renamed step needs a new picture."""
    names = {path.name for path in IN_DOCS.glob("*.webp")}
    assert names == shown_in_docs(), "run `make pictures`, look at them, and commit them"
    assert names <= {f"{slug(step['title'])}.webp" for step in drive(port, "steps", START)}


def shown_in_docs() -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return {name for page in pages for name in re.findall(r"explorer/([\w-]+\.webp)", page.read_text())}
