"""Fault injection while a checkpoint is saved and an older one removed: one always loads, without manual repair."""

import signal
from pathlib import Path

import pytest
import torch

from glassformer import Transformer, preset
from glassformer.data import Pair, TokenizerSettings, train_tokenizer
from glassformer.model.directory import WEIGHTS
from glassformer.training.checkpoint import (
    AVERAGE,
    METRICS,
    OPTIMISER,
    TrainingState,
    newest_checkpoint,
    remove_older,
    save_checkpoint,
)
from tests.examples import cases
from tests.faults.tracing import Point, ScenarioRunner, needs_strace

pytestmark = needs_strace


def save(run: Path, update: int) -> None:
    torch.manual_seed(1)
    config = preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4, encoder_layers=1, decoder_layers=1)
    model = Transformer(config)
    tokenizer = train_tokenizer(TokenizerSettings(kind="char"), [Pair(1, "ab", "ba")])
    moments = {f"exp_avg.{name}": weight.detach() for name, weight in model.named_parameters()}
    save_checkpoint(run, TrainingState(update=update), model, tokenizer, moments, moments, b"metrics")


def before(run: Path) -> None:
    run.mkdir()
    save(run, 1)


def act(run: Path) -> None:
    """As in the training loop."""
    save(run, 2)
    remove_older(run, keep=1, needed=set())


@pytest.fixture
def points(runner: ScenarioRunner, tmp_path) -> list[Point]:
    points = runner.points(tmp_path / "dry-run")
    assert len(points) > 25
    return points


def newest(run: Path) -> int:
    """The update of the newest checkpoint; there must be one, and no damaged ones."""
    checkpoint = newest_checkpoint(run, lambda text: pytest.fail(f"a damaged checkpoint was left behind: {text}"))
    assert checkpoint is not None
    assert len(checkpoint.tensors(WEIGHTS)) > 10
    assert checkpoint.tensors(OPTIMISER).keys() == checkpoint.tensors(AVERAGE).keys()
    assert (checkpoint.directory / METRICS).read_bytes() == b"metrics"
    return checkpoint.state.update


def test_killed_at_every_system_call_a_checkpoint_loads(runner, points, tmp_path):
    outcomes = set()
    for point in points:
        run = tmp_path / "-".join(map(str, point))
        assert runner.killed(run, point).exit_code == -signal.SIGKILL, point
        outcomes.add(newest(run))
    assert outcomes == {1, 2}


@pytest.mark.parametrize("error", cases("ENOSPC", more=["EIO"]))
def test_an_error_at_every_system_call_costs_no_checkpoint(runner, points, tmp_path, error):
    for point in points:
        run = tmp_path / "-".join(map(str, point))
        outcome = runner.failing(run, point, error)
        assert outcome.injected, point
        assert outcome.exit_code in (0, 1), (point, outcome.errors)
        assert newest(run) in ((2,) if outcome.exit_code == 0 else (1, 2)), point
