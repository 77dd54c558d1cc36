"""Prepare a release: set the version everywhere it stands, date the changelog, and commit that.

`python tools/release.py 0.2.0` is the first step of `make release VERSION=0.2.0`.
"""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
PLACES = {
    "src/glassformer/__init__.py": (r'(?m)^__version__ = "[^"]+"$', '__version__ = "{version}"'),
    "CITATION.cff": (r"(?ms)^version: \S+\ndate-released: \S+$", "version: {version}\ndate-released: {date}"),
    "CHANGELOG.md": (r"(?m)^## Unreleased$", "## Unreleased\n\n## {version} ({date})"),
}
"""Where the version stands: what is replaced there, and by what."""


def main(version: str, root: Path = ROOT) -> None:
    if not VERSION.fullmatch(version):
        raise SystemExit(f"{version!r} is not a version. Give three numbers, as in make release VERSION=0.2.0.")
    if subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True).stdout:
        raise SystemExit("There are changes that are not committed. Commit them first.")
    if subprocess.run(["git", "tag", "--list", f"v{version}"], cwd=root, capture_output=True, check=True).stdout:
        raise SystemExit(f"The tag v{version} exists already. A released version never changes: choose the next one.")
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    texts = {}
    for name, (pattern, replacement) in PLACES.items():
        text = (root / name).read_text(encoding="utf-8")
        texts[name], count = re.subn(pattern, replacement.format(version=version, date=date), text)
        if count != 1:
            raise SystemExit(f"{name} has {count} places for the version; expected one that matches {pattern!r}.")
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "commit", "--quiet", "--message", f"Version {version}", *PLACES], cwd=root, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
