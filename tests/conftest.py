"""Every test runs with the shapes in the annotations checked, on one thread, so that results repeat."""

import os

from jaxtyping import install_import_hook

# The rooms whose annotations carry shapes; before anything imports them.
install_import_hook(["glassformer.model", "glassformer.inspection"], "beartype.beartype")

import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start

# A law may be tried on a slow machine, and building a model is "slow data" to hypothesis.
settings.register_profile(
    "laws",
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("laws")
