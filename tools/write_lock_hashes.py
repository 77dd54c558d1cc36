"""Adds to the pins of a lock file the sha256 of every file of each version, as the package registry states them.

`python tools/write_lock_hashes.py LOCK ...` rewrites the files in place. It asks the registry that pip is configured
for, through pip's own code, so that it must run in an environment with pip. pip has no public interface for this: it
was written for pip 23 to 26, and fails with an error elsewhere. Wheels for other interpreters than CPython 3.11 to 3.13
are left out.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pip._internal.commands.download import DownloadCommand
from pip._internal.index.collector import LinkCollector, parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from pip._vendor.packaging.version import Version

PYTHONS = ("cp311", "cp312", "cp313")


def links(collector: LinkCollector, name: str) -> Iterator[Link]:
    """Every file of a project in the configured registries."""
    sources = collector.collect_sources(name, candidates_from_page=lambda link: [])
    for source in sources.index_urls:
        page = collector.fetch_response(source.link) if source is not None and source.link is not None else None
        if page is not None:
            yield from parse_links(page)


def is_wanted(filename: str, name: str, version: str) -> bool:
    """Whether a file is the sdist of this version, or a wheel of it for one of our interpreters."""
    try:
        if filename.endswith(".whl"):
            project, found, _, tags = parse_wheel_filename(filename)
            usable = any(
                tag.interpreter.startswith("py3")
                or tag.interpreter == "py2.py3"
                or (tag.interpreter in PYTHONS and tag.abi in (tag.interpreter, "none"))
                or tag.abi == "abi3"
                for tag in tags
            )
        else:
            project, found = parse_sdist_filename(filename)
            usable = True
    except ValueError:  # the name of a file of long ago
        return False
    return usable and project == canonicalize_name(name) and found == Version(version)


def hashed(collector: LinkCollector, pin: str) -> str:
    """One requirement with its hashes, in pip's format."""
    name, version = pin.split("==")
    hashes = {link.hash for link in links(collector, name) if is_wanted(link.filename, name, version)}
    if not hashes or None in hashes:
        sys.exit(f"The registry has no hashes for {pin}.")
    return " \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in sorted(filter(None, hashes)))])


def main() -> None:
    command = DownloadCommand("download", "")
    with command.main_context():
        options, _ = command.parse_args(["--quiet"])
        session = command.get_default_session(options)
        collector = command._build_package_finder(options, session)._link_collector
        for path in map(Path, sys.argv[1:]):
            pins = re.findall(r"^[\w.\[\]-]+==[^\s\\;]+", path.read_text(encoding="utf-8"), re.MULTILINE)
            path.write_text("".join(f"{hashed(collector, pin)}\n" for pin in pins), encoding="utf-8")


if __name__ == "__main__":
    main()
