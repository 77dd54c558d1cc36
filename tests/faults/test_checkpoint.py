"""A checkpoint that is being saved, and an older one removed, when the system fails: one always loads by itself."""

import shutil
import signal
from pathlib import Path

import pytest

from glassformer.training.checkpoint import newest_checkpoint
from tests.faults.tracing import EVERYTHING, MARK, Point, points_of, under_strace

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

# The run's directory has step-1. Save step-2, then remove what is older: as the loop does.
SAVE = f"""
import sys
from pathlib import Path
import torch
from glassformer import GlassformerError, Transformer, preset
from glassformer.data import Pair, TokenizerSettings, train_tokenizer
from glassformer.training.checkpoint import State, remove_older, save_checkpoint
run = Path(sys.argv[1])
torch.manual_seed(1)
model = Transformer(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4, encoder_layers=1, decoder_layers=1))
tokenizer = train_tokenizer(TokenizerSettings(kind="char"), lambda: [Pair(1, "ab", "ba")])
memory = {{f"exp_avg.{{name}}": weight.detach() for name, weight in model.named_parameters()}}
def save(update):
    save_checkpoint(run, State(update=update), model, tokenizer, memory, memory, b"metrics")
save(1)
open(run / "{MARK}", "w").close()
try:
    save(2)
    remove_older(run, keep=1, also=set())
except GlassformerError as error:
    sys.exit(f"glassformer: {{error}}")
"""


@pytest.fixture(scope="module")
def points(tmp_path_factory) -> list[Point]:
    directory = tmp_path_factory.mktemp("dry-run")
    found = points_of(SAVE, directory, directory / "log")
    assert len(found) > 25
    return found if EVERYTHING else found[::4]


def newest(run: Path) -> int:
    """The update of the checkpoint that loads; there must be one, and nothing to be done by hand."""
    found = newest_checkpoint(run, lambda text: pytest.fail(f"a damaged checkpoint was left behind: {text}"))
    assert found is not None
    assert len(found.weights()) > 10
    assert found.optimiser().keys() == found.average().keys()
    assert found.metrics() == b"metrics"
    return found.state.update


def test_killed_at_every_system_call_a_checkpoint_loads(points, tmp_path):
    outcomes = set()
    for name, number in points:
        run = tmp_path / f"{name}-{number}"
        run.mkdir()
        done = under_strace(SAVE, run, tmp_path / "log", "-e", f"inject={name}:signal=KILL:when={number}")
        assert done.returncode == -signal.SIGKILL, (name, number, done)
        outcomes.add(newest(run))
    assert outcomes == {1, 2}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_an_error_at_every_system_call_costs_no_checkpoint(points, tmp_path, error):
    for name, number in points:
        run = tmp_path / f"{name}-{number}"
        run.mkdir()
        done = under_strace(SAVE, run, tmp_path / "log", "-e", f"inject={name}:error={error}:when={number}")
        assert "(INJECTED)" in (tmp_path / "log").read_text(), (name, number)
        assert "Traceback" not in done.stderr, (name, number, done.stderr)
        if done.returncode == 0:
            assert newest(run) == 2, (name, number)
        else:
            assert done.stderr.startswith("glassformer: "), (name, number, done.stderr)
            assert newest(run) in (1, 2)
