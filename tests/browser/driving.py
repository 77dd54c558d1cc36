"""The page in a real Chromium: a server on a free port of this machine, and node with playwright-core as the driver."""

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
    """What these tests stand on and is not here."""
    if "GLASSFORMER_BROWSER" not in os.environ:
        return "`make browser` tries the page in a real Chromium"
    if CHROMIUM is None:
        return "There is no chromium here: install it, or name it with CHROMIUM=."
    if shutil.which("node") is None:
        return "There is no node here."
    if not (FRONTEND / "node_modules" / "playwright-core").is_dir():
        return "frontend/node_modules has no playwright-core: run `make browser`."
    return None


needs_chromium = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def drive(port: int | str, task: str, given: Any = None, seconds: int = SECONDS) -> Any:
    """What a task of browser.mjs found; nothing may be asked from elsewhere, and nothing may go wrong on the way."""
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
    assert answer["troubles"] == [] or task in ("ask", "ranked"), answer["troubles"]  # these are refused on purpose
    return answer["found"]
