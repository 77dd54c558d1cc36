"""Data-parallel training: the number of processes does not change what the model learns."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glassformer.model import load_model
from glassformer.training.run_setup import open_run, prepare_run
from tests.examples import cases, only_in_test_all
from tests.processes import ROOT
from tests.training.runs import fingerprint, options, trained

IN_FLOAT64 = """
import sys
from pathlib import Path
import torch
torch.set_default_dtype(torch.float64)
from glassformer.training.training_loop import Trainer
from glassformer.training.run_setup import open_run
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.distributed import ProcessGroup, join_local_group
rank, size, rendezvous, run, out = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
group = join_local_group(rendezvous, rank, size) if size > 1 else ProcessGroup()
trainer = Trainer(open_run(Path(run)), group, ProgressListener())
losses = [trainer._gradients(trainer._next_batches(), 1000, 1)]
for _ in range(20):
    trainer._update()
    losses.append(trainer.state.loss)
if rank == 0:
    weights = {name: weight.detach() for name, weight in trainer.model.named_parameters()}
    assert next(iter(weights.values())).dtype == torch.float64
    torch.save((weights, losses), out)
"""


@pytest.mark.parametrize("micro_batches", cases(3, more=[4, 1]))
def test_two_ranks_learn_what_one_learns(tmp_path, micro_batches):
    """With dropout and sampled subwords, in float64, 20 updates over several epochs; also if `micro_batches` is no
    multiple of the ranks."""
    run_options = options(tmp_path, micro_batches=micro_batches, subword_sampling=0.2)
    with prepare_run(run_options, lambda text: None) as run:
        directory = run.directory
    for size in (1, 2):
        (tmp_path / f"rendezvous-{size}").mkdir()
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", IN_FLOAT64, str(rank), str(size), str(tmp_path / f"rendezvous-{size}"),
                 str(directory), str(tmp_path / f"{size}.pt")], cwd=ROOT,
            )
            for rank in range(size)
        ]  # fmt: skip
        assert [rank.wait(120) for rank in ranks] == [0] * size
    (alone, alone_losses), (shared, shared_losses) = (torch.load(tmp_path / f"{size}.pt") for size in (1, 2))
    assert shared_losses == pytest.approx(alone_losses, rel=1e-12)
    for name, weight in alone.items():
        torch.testing.assert_close(shared[name], weight, rtol=0, atol=1e-9, msg=name)


@only_in_test_all
def test_local_ranks_give_a_whole_run_and_repeat_it(tmp_path):
    """Two local processes: the same weights as one up to rounding, and the same bits each time."""
    reports, prints = [], []
    for out, ranks in (("a", 2), ("b", 2), ("c", 1)):
        run_options = options(tmp_path, out=out, ranks=ranks, micro_batches=2)
        reports.append(trained(run_options))
        prints.append(fingerprint(Path(run_options["out"])))
    assert prints[0] == prints[1]
    assert reports[0]["machine"]["ranks"] == 2
    assert reports[0]["updates"] == reports[2]["updates"]
    shared, alone = (load_model(next((tmp_path / out).glob("step-24"))) for out in ("a", "c"))
    for (name, weight), expected in zip(shared.named_parameters(), alone.parameters(), strict=True):
        if not name.endswith("k_proj.bias"):  # its gradient is zero except for rounding, which Adam amplifies
            torch.testing.assert_close(weight, expected, rtol=0, atol=2e-3, msg=name)


def test_a_run_of_two_ranks_is_stopped_and_resumes(tmp_path):
    """Ctrl-C reaches rank 0, which tells the helper, and both exit."""
    import signal

    from tests.training.runs import Signalled, in_own_process

    undisturbed = options(tmp_path, out="undisturbed", ranks=2, micro_batches=2)
    trained(undisturbed)
    run_options = options(tmp_path, ranks=2, micro_batches=2)
    process = in_own_process(run_options, Signalled(8, signal.SIGINT))
    process.join(120)
    assert process.exitcode == 130
    process = in_own_process(run_options)
    process.join(120)
    assert process.exitcode == 0
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "undisturbed")


@only_in_test_all
def test_two_ranks_can_be_asked_for_more_updates(tmp_path):
    """Every rank must see the new number, or one would leave the other waiting."""
    run_options = options(tmp_path, ranks=2, micro_batches=2, updates=6)
    trained(run_options)
    assert trained(run_options | {"training": run_options["training"] | {"updates": 9}})["updates"] == 9


def torchrun(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    return subprocess.run(
        [*command, "--standalone", "-m", "glassformer", *arguments],
        capture_output=True, text=True, timeout=300, check=False, cwd=cwd,
    )  # fmt: skip


@only_in_test_all
def test_torchrun_trains_with_two_ranks(tmp_path):
    run_options = options(tmp_path, micro_batches=2)
    sections = {name: section for name, section in run_options.items() if isinstance(section, dict)}
    settings = [f"{name}.{option}={value}" for name, section in sections.items() for option, value in section.items()]
    flags = [part for setting in settings if not setting.startswith("training.ranks") for part in ("--set", setting)]
    done = torchrun(["train", "--out", run_options["out"], *flags], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("BLEU") == 1  # only rank 0 prints
    run = open_run(Path(run_options["out"]))
    assert run.settings.training.ranks == 2
    report = trained(run_options)  # already finished, also for a single process
    assert report["machine"]["ranks"] == 2


@only_in_test_all
def test_torchrun_says_once_what_is_wrong(tmp_path):
    run_options = options(tmp_path)
    done = torchrun(
        ["train", "--out", "run", "--source", run_options["data"]["source"], "--target", "nowhere"], tmp_path
    )
    assert done.returncode != 0
    assert done.stderr.count("nowhere cannot be read: No such file or directory.") == 1
    assert not (tmp_path / "run").exists()
