"""The explorer in JupyterLab and in the output of nbconvert: nothing is loaded from other hosts."""

import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from glassformer import load
from tests.browser.driving import ROOT, drive, needs_chromium

BIN = Path(os.environ.get("GLASSFORMER_JUPYTER", ROOT / ".venv-notebook/bin"))
pytestmark = [
    needs_chromium,
    pytest.mark.skipif(
        not (BIN / "jupyter-lab").exists(), reason="JupyterLab was not found: `make browser` installs it."
    ),
]
SENTENCE = "The animal didn't cross the street because it was too tired."
OTHER = "The dog was tired."
QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--IdentityProvider.token=",
    "--ServerApp.allow_root=True",
)


def notebook(path: Path, *cells: str) -> None:
    """Write a notebook of code cells, in JupyterLab's format."""
    made = [
        {"cell_type": "code", "execution_count": None, "id": f"cell-{i}", "metadata": {}, "outputs": [], "source": cell}
        for i, cell in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    path.write_text(json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}))


def environment(home: Path) -> dict[str, str]:
    """The current environment, with another home directory and these sources of glassformer."""
    own = {"HOME": str(home), "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONPATH": str(ROOT / "src")}
    return {**os.environ, **own, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def lab(folder: Path, home: Path):
    """JupyterLab on a free local port: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [BIN / "jupyter-lab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", *QUIET]
    with (home / "log.txt").open("w") as log:
        running = subprocess.Popen(command, cwd=folder, env=environment(home), stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 90
        while True:
            try:
                urlopen(f"{address}/api").close()
                break
            except URLError:
                assert running.poll() is None, (home / "log.txt").read_text()[-2000:]
                assert time.monotonic() < end, "JupyterLab does not answer"
                time.sleep(0.3)
        yield address
    finally:
        running.terminate()
        running.wait(30)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A notebook that was run in JupyterLab, and the result of the task."""
    folder, home = tmp_path_factory.mktemp("notebook"), tmp_path_factory.mktemp("home")
    path = folder / "explore.ipynb"
    notebook(
        path,
        "import glassformer as gf\ntranslator = gf.load('street')",
        f"gf.explore(translator, {SENTENCE!r}, name='street')",
    )
    given = {"notebook": path.name, "text": OTHER, "translation": load("street")(OTHER)}
    with lab(folder, home) as address:
        found = drive(address, "notebook", given | {"picture": os.environ.get("GLASSFORMER_PICTURE")}, seconds=450)
    return path, home, found


def test_a_cell_has_the_whole_tour(shown):
    _, _, found = shown
    count = int(found["seen"][0]["where"].split()[-1])
    assert [one["where"] for one in found["seen"]] == [f"step {i} of {count}" for i in range(1, count + 1)]
    assert [one["errors"] for one in found["seen"]] == [[]] * count
    badges = [badge for one in found["seen"] for badge in one["badges"]]
    assert len(badges) > 8
    assert max(badges) < 1e-4


def test_the_kernel_answers_for_another_sentence_and_keys_stay_in_the_cell(shown):
    _, _, found = shown
    assert found["translated"]["translation"] == load("street")(OTHER)
    assert found["cells"] == 2  # letters such as B would have added more


def test_it_has_the_theme_of_the_notebook(shown):
    _, _, found = shown
    assert found["dark"] == "rgb(20, 22, 26)"


def test_the_output_of_nbconvert_needs_no_kernel(shown):
    path, home, _ = shown
    command = [BIN / "jupyter-nbconvert", "--to", "html", path.name]
    subprocess.run(command, cwd=path.parent, env=environment(home), check=True, capture_output=True, timeout=120)
    seen = drive(path.with_suffix(".html").as_uri(), "framed")
    [frame] = seen["found"]
    assert frame["where"].startswith("step 2 of ")
    assert not any("anywidget" in one or "jupyter-widgets" in one for one in seen["requested"])


def test_a_static_page_stays_when_everything_is_run_without_a_browser(tmp_path):
    path = tmp_path / "static.ipynb"
    code = f"import glassformer as gf\ngf.explore(gf.load('street'), {SENTENCE!r}, static=True)"
    notebook(path, code, f"gf.explore(gf.inspect(gf.load('street')).trace({OTHER!r}), static=True)")
    command = [BIN / "jupyter-nbconvert", "--to", "html", "--execute", path.name]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True, timeout=170)
    seen = drive(path.with_suffix(".html").as_uri(), "framed")
    assert len(seen["found"]) == 2
    for frame in seen["found"]:
        assert frame["before"] == frame["after"]  # does not keep growing or shrinking
        height, content, scrolled = frame["after"]
        assert abs(height - content) < 3
        assert scrolled <= height + 1
