"""Every step of the explorer as a picture: light and dark, wide and narrow. `make pictures` keeps them in docs."""

import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from glassformer.server.translation_service import open_served_model
from tests.browser.driving import ROOT, drive, needs_chromium
from tests.server.running import running

pytestmark = needs_chromium
KEPT = ROOT / "docs" / "explorer"
START = {"hash": "#v=sentence&q=10&h=1"}
"""With "it" chosen."""
SHOWN = {
    "What if?": {"w": '[{"kind":"replace-word","old":"tired","new":"wide"}]'},
    "Who is “it”?": {"who": "it", "i": "tired=wide"},
}
"""Screens that show little until something is asked."""
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 390)}


@pytest.fixture(scope="module")
def port():
    with running(open_served_model("street")) as server:
        yield server.port


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def asked(step: dict) -> str:
    return step["hash"] + "".join(f"&{key}={quote(text)}" for key, text in SHOWN.get(step["title"], {}).items())


@pytest.mark.parametrize("look", LOOKS)
def test_every_step_is_a_picture(port, look, tmp_path):
    """Of a blank page a picture has a few kilobytes; what it looks like is for eyes."""
    scheme, width = LOOKS[look]
    folder = Path(os.environ.get("GLASSFORMER_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    steps = drive(port, "steps", START)
    views = [
        {
            "hash": asked(one),
            "scheme": scheme,
            "width": width,
            "path": str(folder / f"{number:02}-{slug(one['title'])}-{look}.webp"),
        }
        for number, one in enumerate(steps, start=1)
    ]
    drive(port, "pictures", views)
    for view in views:
        assert Path(view["path"]).stat().st_size > 8_000, view["path"]


def test_the_docs_have_a_picture_of_every_step(port):
    kept = {path.name for path in KEPT.glob("*.webp")}
    titles = [slug(one["title"]) for one in drive(port, "steps", START)]
    wanted = {f"{number:02}-{title}-{look}.webp" for number, title in enumerate(titles, start=1) for look in LOOKS}
    assert kept == wanted, "run `make pictures`, look at them, and commit them"
