"""Every test runs on one thread with the same random state; shapes are checked in the packages that annotate them."""

import os
from pathlib import Path

import jaxtyping
from jaxtyping import install_import_hook

# The packages whose annotations have shapes; installed before anything imports them.
WITH_SHAPES = ["model", "inspection"]
install_import_hook([f"glassformer.{package}" for package in WITH_SHAPES], "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

from tests.examples import SEED, example_decorator, use_profile  # noqa: E402

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
use_profile()


@pytest.fixture(autouse=True)
def _the_same_random_state():
    """No test's numbers depend on which tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _shapes_are_checked_in_their_packages(request):
    """In other packages' tests the same calls would be checked again, which takes longer than the rest of a test."""
    package = request.path.relative_to(Path(__file__).parent).parts[0]
    jaxtyping.config.update("jaxtyping_disable", package not in WITH_SHAPES)


def pytest_report_header() -> str | None:
    return SEED and f"all examples, from seed {SEED}: `make test-all SEED={SEED}` repeats them"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each failure of a property-based test as an `@example` decorator that repeats it."""
    failed = terminalreporter.stats.get("failed", [])
    decorators = {report.nodeid: example_decorator(report.longreprtext) for report in failed}
    lines = [f"{name}\n{decorator}" for name, decorator in decorators.items() if decorator]
    if lines:
        terminalreporter.section("failing examples: add them above their tests, with an explanation")
        terminalreporter.write("\n\n".join(lines) + "\n")
