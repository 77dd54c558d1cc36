"""Every test runs on one thread, so that results repeat; those of a room whose annotations carry shapes check them."""

import os
from pathlib import Path

import jaxtyping
from jaxtyping import install_import_hook

# The rooms whose annotations carry shapes; before anything imports them.
WITH_SHAPES = ["model", "inspection"]
install_import_hook([f"glassformer.{room}" for room in WITH_SHAPES], "beartype.beartype")

import pytest  # noqa: E402
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


@pytest.fixture(autouse=True)
def _shapes_are_checked_in_their_rooms(request):
    """Elsewhere the same calls would be checked again, which takes longer than the rest of a test."""
    room = request.path.relative_to(Path(__file__).parent).parts[0]
    jaxtyping.config.update("jaxtyping_disable", room not in WITH_SHAPES)
