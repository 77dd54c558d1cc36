"""Translates with each library of the installed C engine that this processor runs; `--list` prints their names."""

import os
import subprocess
import sys

from glassformer.engine.native_library import runnable

CODE = """
import glassformer
from glassformer.engine.native_library import loaded
answer = glassformer.load("street")("The dog was too tired.")
assert answer.startswith("Der Hund"), answer
print(loaded().instruction_set, loaded().digest, loaded().functions._name)
"""


def main() -> None:
    names = [each.name for each, _ in runnable()]
    if not names:
        sys.exit("There is no library of the C engine that this processor runs.")
    for name in names:
        if "--list" in sys.argv:
            print(name)
            continue
        environment = os.environ | {"GLASSFORMER_ISA": name, "GLASSFORMER_COMPILER": ""}  # nothing is compiled here
        subprocess.run([sys.executable, "-c", CODE], check=True, env=environment)


if __name__ == "__main__":
    main()
