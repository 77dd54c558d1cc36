"""Driver of the browser tests: Chromium, run by node with playwright-core."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 180


def missing() -> str | None:
    """A requirement of these tests that is not met; None if all are."""
    if "GLASSFORMER_BROWSER" not in os.environ:
        return "`make browser` runs the tests in Chromium"
    if CHROMIUM is None:
        return "chromium was not found: install it, or set CHROMIUM to its path."
    if shutil.which("node") is None:
        return "node was not found."
    if not (FRONTEND / "node_modules" / "playwright-core").is_dir():
        return "frontend/node_modules has no playwright-core: run `make browser`."
    return None


needs_chromium = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def drive(port: int | str, task: str, given: Any = None, seconds: int = SECONDS) -> Any:
    """The result of a task of browser.mjs; fails on requests to other hosts and on errors of the page."""
    order = {
        "address": port if isinstance(port, str) else f"http://127.0.0.1:{port}",
        "frontend": str(FRONTEND),
        "chromium": CHROMIUM,
        "task": task,
        "given": given,
    }
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("browser.mjs")), json.dumps(order)],
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    expected_errors = task in ("translate", "ranked")  # these request what the server refuses
    assert answer["troubles"] == [] or expected_errors, answer["troubles"]
    return answer["found"]
