"""A checkpoint that is being saved, and an older one removed, when the system fails: one always loads by itself."""

import signal
from pathlib import Path

import pytest
import torch

from glassformer import Transformer, preset
from glassformer.data import Pair, TokenizerSettings, train_tokenizer
from glassformer.training.checkpoint import State, newest_checkpoint, remove_older, save_checkpoint
from tests.faults.tracing import Point, Stage, needs_strace

pytestmark = needs_strace


def save(run: Path, update: int) -> None:
    torch.manual_seed(1)
    config = preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4, encoder_layers=1, decoder_layers=1)
    model = Transformer(config)
    tokenizer = train_tokenizer(TokenizerSettings(kind="char"), lambda: [Pair(1, "ab", "ba")])
    memory = {f"exp_avg.{name}": weight.detach() for name, weight in model.named_parameters()}
    save_checkpoint(run, State(update=update), model, tokenizer, memory, memory, b"metrics")


def before(run: Path) -> None:
    run.mkdir()
    save(run, 1)


def act(run: Path) -> None:
    """As the loop does it."""
    save(run, 2)
    remove_older(run, keep=1, also=set())


@pytest.fixture
def points(stage: Stage, tmp_path) -> list[Point]:
    found = stage.points(tmp_path / "dry-run")
    assert len(found) > 25
    return found


def newest(run: Path) -> int:
    """The update of the checkpoint that loads; there must be one, and nothing to be done by hand."""
    found = newest_checkpoint(run, lambda text: pytest.fail(f"a damaged checkpoint was left behind: {text}"))
    assert found is not None
    assert len(found.weights()) > 10
    assert found.optimiser().keys() == found.average().keys()
    assert found.metrics() == b"metrics"
    return found.state.update


def test_killed_at_every_system_call_a_checkpoint_loads(stage, points, tmp_path):
    outcomes = set()
    for point in points:
        run = tmp_path / "-".join(map(str, point))
        assert stage.killed(run, point).ended == -signal.SIGKILL, point
        outcomes.add(newest(run))
    assert outcomes == {1, 2}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_an_error_at_every_system_call_costs_no_checkpoint(stage, points, tmp_path, error):
    for point in points:
        run = tmp_path / "-".join(map(str, point))
        played = stage.failing(run, point, error)
        assert played.injected, point
        assert played.ended in (0, 1), (point, played.errors)
        assert newest(run) in ((2,) if played.ended == 0 else (1, 2)), point
