"""Every test runs on one thread and from the same random state; shapes are checked in the rooms that annotate them."""

import os
from pathlib import Path

import jaxtyping
from jaxtyping import install_import_hook

# The rooms whose annotations carry shapes; before anything imports them.
WITH_SHAPES = ["model", "inspection"]
install_import_hook([f"glassformer.{room}" for room in WITH_SHAPES], "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

from tests.examples import SEED, case_to_keep, use_profile  # noqa: E402

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
use_profile()


@pytest.fixture(autouse=True)
def _the_same_random_state():
    """No test's numbers depend on which tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _shapes_are_checked_in_their_rooms(request):
    """Elsewhere the same calls would be checked again, which takes longer than the rest of a test."""
    room = request.path.relative_to(Path(__file__).parent).parts[0]
    jaxtyping.config.update("jaxtyping_disable", room not in WITH_SHAPES)


def pytest_report_header() -> str | None:
    return SEED and f"every example, from seed {SEED}: `make test-all SEED={SEED}` repeats them"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each failure of a law as the decorator that keeps it."""
    found = {one.nodeid: case_to_keep(one.longreprtext) for one in terminalreporter.stats.get("failed", [])}
    cases = [f"{name}\n{case}" for name, case in found.items() if case]
    if cases:
        terminalreporter.section("cases to keep: write them above their tests, with their story")
        terminalreporter.write("\n\n".join(cases) + "\n")
