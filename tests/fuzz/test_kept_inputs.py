"""Every reader of untrusted bytes survives the inputs that fuzzing found, and mutations of them.

`make fuzz` searches for more, guided by coverage; see docs/reliability.md.
"""

import pytest

from glassformer.interop.torch_file import torch_file_reader
from tests.examples import ALL, SEED
from tests.fuzz.kept_inputs import READERS, inputs, kept
from tests.fuzz.targets import TARGETS, check

INPUTS = 1500 if ALL else 60


@pytest.fixture(autouse=True)
def _sandbox_restored(monkeypatch):
    """The target of torch files reads them in its own process, without the sandbox; tests after it must not."""
    monkeypatch.setattr(torch_file_reader, "_describe", torch_file_reader._describe)


@pytest.mark.parametrize("name", TARGETS)
def test_the_reader_accepts_its_seeds(name):
    """The inputs to start from are valid, except the manifest's, whose file does not exist."""
    assert all(check(TARGETS[name], seed) for seed in TARGETS[name].seeds()) or name == "manifest"


@pytest.mark.parametrize("name", TARGETS)
def test_the_reader_returns_or_refuses_in_one_sentence(name):
    found = list(inputs(name, INPUTS, SEED or "fixed"))  # first the seeds, and what once failed
    tried = found if ALL else found[:INPUTS]
    accepted = sum(check(TARGETS[name], data) for data in tried)
    assert len(tried) >= INPUTS
    assert accepted < len(tried)


def test_every_target_has_kept_inputs():
    assert set(kept()) == set(TARGETS) == set(READERS)
