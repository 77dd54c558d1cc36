"""Number of mutations that are tried per file format; `make hostile` tries many more."""

import os

from tests.examples import ALL

MUTATIONS = int(os.environ.get("GLASSFORMER_MUTATIONS", "2000" if ALL else "100"))
