"""How many faults are tried in each kind of file: a few in every test run, thousands by `make hostile`."""

import os

MUTATIONS = int(os.environ.get("GLASSFORMER_MUTATIONS", "200"))
