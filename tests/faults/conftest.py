"""Every module here is a scene, `before` and `act`, and has a stage of its own."""

import pytest

from tests.faults.tracing import stage_of


@pytest.fixture(scope="module")
def stage(request, tmp_path_factory):
    with stage_of(request.module.__name__, tmp_path_factory.mktemp("stage")) as stage:
        yield stage
