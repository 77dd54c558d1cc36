"""Running Python and the command line as a user does: a fresh interpreter, no checked annotations, nothing imported."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_plainly(code: str, *arguments: str) -> str:
    """What the code prints; its failure is the test's."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout
