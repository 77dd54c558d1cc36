"""Writes the bill of materials (CycloneDX 1.6, JSON) of glassformer and the packages installed with it.

`python tools/write_sbom.py FILE`. Names, versions, licences and dependencies are those of the installed packages; the
hashes are those of the lock files, of which the installed file is one.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

ROOT = Path(__file__).parents[1]
LOCKS = (ROOT / "requirements.lock", ROOT / "tools/dev.lock")
PROJECT = "glassformer"


def canonical(name: str) -> str:
    """A project's name as the registry compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reference(package: Distribution) -> str:
    """Package URL: pkg:pypi/name@version."""
    return f"pkg:pypi/{canonical(package.metadata['Name'])}@{package.version}"


def licences(package: Distribution) -> list[dict[str, Any]]:
    """The licence expression, else the trove classifiers, else the licence's name."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if "License ::" in line]
    names = classifiers or [line for line in (metadata.get("License") or "").splitlines()[:1] if line.strip()]
    return [{"license": {"name": name}} for name in names]


def requirements(package: Distribution) -> Iterator[str]:
    """Canonical names of the packages that it requires, without those of its extras."""
    for requirement in package.requires or []:
        if "extra ==" not in requirement and (match := re.match(r"[\w.-]+", requirement)):
            yield canonical(match[0])


def locked_hashes() -> dict[str, list[str]]:
    """The sha256 of every file of each locked version, by canonical name."""
    lock = "".join(path.read_text(encoding="utf-8") for path in LOCKS)
    entries = re.findall(r"^([\w.-]+)==\S+((?: \\\n +--hash=sha256:\w+)*)", lock, re.MULTILINE)
    return {canonical(name): re.findall(r"sha256:(\w+)", hashes) for name, hashes in entries}


def component(package: Distribution, hashes: list[str]) -> dict[str, Any]:
    """One package. CycloneDX has one hash per file, so the locked ones are listed as properties."""
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package.metadata["Name"],
        "version": package.version,
        "purl": reference(package),
    }
    if found := licences(package):
        entry["licenses"] = found
    if hashes:
        entry["properties"] = [{"name": "glassformer:locked-sha256", "value": digest} for digest in hashes]
    return entry


def bill_of_materials() -> dict[str, Any]:
    """The whole document; the same environment gives the same one, except for the time."""
    packages = {canonical(package.metadata["Name"]): package for package in distributions()}
    hashes = locked_hashes()
    own = distribution(PROJECT)
    others = [package for name, package in sorted(packages.items()) if name != PROJECT]
    references = [reference(package) for package in (own, *others)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, ' '.join(references))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component(own, []) | {"type": "application"},
        },
        "components": [component(package, hashes.get(canonical(package.metadata["Name"]), [])) for package in others],
        "dependencies": [
            {
                "ref": reference(package),
                "dependsOn": sorted({reference(packages[name]) for name in requirements(package) if name in packages}),
            }
            for package in (own, *others)
        ],
    }


def main() -> None:
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    bill = bill_of_materials()
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"{path}: {len(bill['components'])} packages.")


if __name__ == "__main__":
    main()
