"""Fault injection: each test module here is a scenario, `before` and `act`, run by its own process."""

import pytest

from tests.faults.tracing import scenario_runner


@pytest.fixture(scope="module")
def runner(request, tmp_path_factory):
    with scenario_runner(request.module.__name__, tmp_path_factory.mktemp("runner")) as runner:
        yield runner
