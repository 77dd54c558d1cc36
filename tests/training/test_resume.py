"""Resuming: after any interruption the same command ends with the same bits."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DirectoryError, GlassformerError, SettingsError
from glassformer.training import ProgressListener
from glassformer.training.checkpoint import newest_checkpoint
from glassformer.training.run_setup import prepare_run
from tests.examples import cases, only_in_test_all, seeded_random
from tests.training.runs import (
    Listener,
    Signalled,
    fingerprint,
    helper_processes,
    in_own_process,
    killed_at,
    options,
    train_silently,
    trained,
)

KILLS = int(os.environ.get("GLASSFORMER_KILLS", "40"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict[str, str]:
    """Fingerprint of an uninterrupted run."""
    return fingerprint(run_without_interruption(tmp_path_factory.mktemp("uninterrupted")))


def run_without_interruption(folder: Path) -> Path:
    run_options = options(folder)
    process = in_own_process(run_options)
    process.join(120)
    assert process.exitcode == 0
    return Path(run_options["out"])


def test_a_run_is_the_same_every_time(uninterrupted, tmp_path):
    assert fingerprint(run_without_interruption(tmp_path)) == uninterrupted


@pytest.mark.parametrize("update", cases(1, 7, more=[6, 12, 23]))
def test_killed_after_any_update_it_ends_with_the_same_bits(uninterrupted, tmp_path, update):
    """Before the first checkpoint, just before and after one, and shortly before the end."""
    run_options = options(tmp_path)
    killed_at(run_options, update)
    in_own_process(run_options).join(120)
    assert fingerprint(Path(run_options["out"])) == uninterrupted


def drawn_options(draw: random.Random) -> dict[str, Any]:
    """Options, relative to those of `options`, whose totals do not divide."""
    ranks = draw.choice([1, 1, 2])
    training = {
        "updates": draw.randint(7, 20),
        "ranks": ranks,
        "micro_batches": draw.randint(ranks, 3),
        "average": draw.choice(["none", "ema", "last", "last"]),
        "average_last": draw.randint(1, 4),
        "keep": draw.randint(1, 3),
        "r_drop": draw.choice([0.0, 1.0]),
        "subword_sampling": draw.choice([0.0, 0.3]),
    }
    validation = {"every": draw.randint(2, 6), "metric": draw.choice(["bleu", "loss"]), "patience": draw.randint(0, 3)}
    return {"training": training, "validation": validation, "tokenizer": {"joint": draw.random() < 0.5}}


def results(run: Path) -> dict[str, Any]:
    return json.loads((run / "report.json").read_text()) | {"seconds": 0.0} | fingerprint(run)


@pytest.mark.parametrize("number", cases(0, more=range(1, 20)))
def test_with_any_settings_a_killed_run_ends_with_the_same_bits(tmp_path, number):
    """Checkpoints saved by the clock, in one of the two runs after every update, must not change what is averaged."""
    draw = seeded_random(f"resume {number}")
    drawn = drawn_options(draw)
    runs = []
    for out, kills in (("undisturbed", []), ("killed", sorted(draw.sample(range(1, drawn["training"]["updates"]), 2)))):
        for update in (*kills, None):
            process = start_drawn(tmp_path, out, drawn, draw, update and Signalled(update, signal.SIGKILL))
            process.join(120)
            assert process.exitcode in (0, -signal.SIGKILL)  # 0 if it stopped early, before that update
        runs.append(results(tmp_path / out))
    assert runs[0] == runs[1], (drawn, kills)


@only_in_test_all
@pytest.mark.parametrize("part", range(4))
def test_with_any_settings_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path, part, record_property):
    """`GLASSFORMER_KILLS` kills in all four parts hit start-up, epochs, validations, saves and the report; with other
    settings for each undisturbed run and its killed twin, whose victim may also be the helper process."""
    draw = seeded_random(f"kills {part}")
    moments = random.Random()  # not seeded: the clock decides anyway where a kill hits
    killed = 0
    while killed < KILLS / 4:
        drawn = drawn_options(draw)
        folder = tmp_path / f"{killed}"
        began = time.monotonic()
        process = start_drawn(folder, "undisturbed", drawn, draw)
        process.join(120)
        seconds = time.monotonic() - began
        victims = []
        while True:  # one run, killed and restarted until it completes
            process = start_drawn(folder, "killed", drawn, draw)
            process.join(moments.uniform(0, 1) * seconds if len(victims) < 3 else 120)
            if process.exitcode is None:
                victims.append(kill_one(process, moments))
            else:
                break
        assert process.exitcode == 0, (drawn, victims)
        killed += len(victims)
        record_property("killed", f"{victims} {drawn}")  # for a report of `--junitxml`
        assert results(folder / "killed") == results(folder / "undisturbed"), (drawn, victims)
        shutil.rmtree(folder)


def start_drawn(
    folder: Path, out: str, drawn: dict[str, Any], draw: random.Random, listener: ProgressListener | None = None
) -> BaseProcess:
    """A training process with the drawn options, which saves by the clock after every update or never."""
    run_options = options(folder, out)
    run_options = {name: value | drawn.get(name, {}) if name in drawn else value for name, value in run_options.items()}
    run_options["training"]["save_minutes"] = draw.choice([1e-9, 10.0])
    return in_own_process(run_options, listener)


def kill_one(process: BaseProcess, draw: random.Random) -> str:
    """Kill the process, or, by a coin toss, its helper process if it has one; returns which."""
    helpers = helper_processes(process) if draw.random() < 0.5 else []
    for pid in helpers:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)
    if not helpers:
        process.kill()
    process.join(120)
    assert process.exitcode in ((0, 1) if helpers else (0, -signal.SIGKILL))  # 0 if it was about to end
    return "helper" if helpers else "rank 0"


def test_the_mean_of_the_last_checkpoints_does_not_depend_on_the_clock(tmp_path):
    """Checkpoints by the clock once removed those of the validations; the last validation averaged nothing."""
    found = []
    for save_minutes in (10.0, 1e-9):
        run_options = options(tmp_path, f"{save_minutes}", updates=20, average="last", average_last=3, keep=1)
        run_options["training"]["save_minutes"] = save_minutes
        run_options["validation"] |= {"metric": "loss"}
        listener = Listener()
        trained(run_options, listener)
        assert not [text for text in listener.messages if "Averaging only" in text]
        run = Path(run_options["out"])
        assert sorted(path.name for path in run.glob("step-*")) == ["step-18", "step-20"]  # for the next mean
        found.append(results(run))
    assert found[0] == found[1]


@only_in_test_all
def test_a_stop_before_a_validation_keeps_what_its_mean_needs(tmp_path):
    """The checkpoint of the signal is kept, so the run may resume from before that validation once more."""
    run_options = options(tmp_path, updates=20, average="last", average_last=2, keep=1)
    trained(run_options | {"out": str(tmp_path / "undisturbed")})
    in_own_process(run_options, Signalled(12, signal.SIGINT)).join(120)
    for number in (13, None):
        process = in_own_process(run_options, number and Signalled(number, signal.SIGKILL))
        process.join(120)
        assert process.exitcode == (-signal.SIGKILL if number else 0)
    assert results(tmp_path / "run") == results(tmp_path / "undisturbed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_stop_signal_it_saves_and_exits(uninterrupted, tmp_path, number):
    """After the update during which the signal came."""
    run_options = options(tmp_path)
    run = Path(run_options["out"])
    process = in_own_process(run_options, Signalled(8, number))
    process.join(120)
    assert process.exitcode == 128 + number
    assert newest_checkpoint(run, pytest.fail).state.update == 8
    in_own_process(run_options).join(120)
    assert fingerprint(run) == uninterrupted


@only_in_test_all
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_signal_from_outside_it_exits_within_five_seconds(tmp_path, number):
    run_options = options(tmp_path, updates=100_000)
    process = in_own_process(run_options)
    while not (Path(run_options["out"]) / "step-6").exists():
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, number)
    signalled_at = time.monotonic()
    process.join(20)
    assert time.monotonic() - signalled_at < 5
    assert process.exitcode == 128 + number
    assert newest_checkpoint(Path(run_options["out"]), pytest.fail).state.update >= 6


def stopped_after_twelve(tmp_path: Path) -> dict:
    """An unfinished run with two checkpoints, step-6 and step-12."""
    run_options = options(tmp_path)
    killed_at(run_options, 13)
    return run_options


@pytest.mark.parametrize(
    "file", cases("model.safetensors", more=["optimizer.safetensors", "state.json", "manifest.json"])
)
def test_a_damaged_checkpoint_is_renamed_and_reported(uninterrupted, tmp_path, file):
    run_options = stopped_after_twelve(tmp_path)
    run = Path(run_options["out"])
    path = run / "step-12" / file
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    listener = Listener()
    trained(run_options, listener)
    assert any("step-12" in text and "damaged-step-12" in text for text in listener.messages), listener.messages
    assert any("Resuming from" in text and "step-6" in text for text in listener.messages)
    assert (run / "damaged-step-12").is_dir()
    assert fingerprint(run) == uninterrupted


def test_a_second_process_on_the_same_directory_is_refused(tmp_path):
    run_options = options(tmp_path, updates=100_000)
    run = Path(run_options["out"])
    process = in_own_process(run_options)
    while not (run / "step-6").exists():
        assert process.is_alive()
        time.sleep(0.01)
    try:
        with pytest.raises(DirectoryError, match=rf"another process \(process {process.pid} on "):
            trained(run_options)
    finally:
        process.kill()
        process.join()


def test_what_a_killed_save_left_is_removed(tmp_path):
    run_options = stopped_after_twelve(tmp_path)
    leftover = Path(run_options["out"]) / ".building-step-18-12345678"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    train_silently(run_options)
    assert not leftover.exists()


def test_other_settings_are_refused_by_name(tmp_path):
    run_options = stopped_after_twelve(tmp_path)
    changed = run_options | {"seed": 2, "training": run_options["training"] | {"label_smoothing": 0.2}}
    with pytest.raises(SettingsError, match=r"label_smoothing was 0.1 and is now 0.2; seed was 1 and is now 2"):
        trained(changed)


def test_another_corpus_is_refused(tmp_path):
    run_options = stopped_after_twelve(tmp_path)
    with Path(run_options["data"]["target"]).open("r+") as file:
        file.write("X")
    with pytest.raises(GlassformerError, match=r"The corpus has changed since .* was started"):
        trained(run_options)


def test_an_edited_run_toml_is_refused(tmp_path):
    """Also if the command gives the old value: the run was started with that one. What may change may be edited."""
    run_options = stopped_after_twelve(tmp_path)
    path = tmp_path / "run/run.toml"
    text = path.read_text()
    path.write_text(text.replace("label_smoothing = 0.1", "label_smoothing = 0.3"))
    for label_smoothing in ({}, {"label_smoothing": 0.1}):
        with pytest.raises(SettingsError, match=r"run.toml has been edited .*label_smoothing was 0.1 and is now 0.3"):
            trained(run_options | {"training": run_options["training"] | label_smoothing})
    path.write_text(text.replace("keep = 2", "keep = 3"))
    run_options["training"].pop("keep")
    with prepare_run(run_options, lambda text: None) as run:
        assert run.settings.training.keep == 3


def test_another_dev_set_is_refused(tmp_path):
    run_options = stopped_after_twelve(tmp_path)
    path = Path(run_options["data"]["dev_source"])
    path.write_text(path.read_text().replace("The", "A", 1))
    with pytest.raises(GlassformerError, match=r"The dev set has changed since .* was started"):
        trained(run_options)


def test_a_damaged_tokenizer_is_named(uninterrupted, tmp_path):
    """It was once read, and the corpus was blamed for the other tokens."""
    run_options = stopped_after_twelve(tmp_path)
    path = tmp_path / "run/tokenizer/joint.model"
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    with pytest.raises(DirectoryError, match=r"tokenizer is damaged: joint.model .* also in (\S+)\.$") as error:
        trained(run_options)
    copy = Path(re.search(r"also in (\S+)\.$", str(error.value))[1])
    path.write_bytes((copy / path.name).read_bytes())
    trained(run_options)
    assert fingerprint(tmp_path / "run") == uninterrupted


def test_a_finished_run_names_what_is_damaged(tmp_path):
    run_options = options(tmp_path, updates=6)
    trained(run_options)
    for name in ("best-6", "step-6"):
        (tmp_path / "run" / name / "model.safetensors").write_bytes(b"")
    listener = Listener()
    trained(run_options, listener)
    finished, best, step = listener.messages
    assert "already finished" in finished
    assert re.search(r"best-6 is damaged: model.safetensors has 0 bytes .* It is the model of this run", best)
    assert re.search(r"step-6 is damaged: model.safetensors has 0 bytes .* Only a run with more updates", step)


def test_a_finished_run_says_so_and_can_be_asked_for_more(tmp_path):
    run_options = options(tmp_path)
    first = trained(run_options)
    listener = Listener()
    assert trained(run_options, listener) == first
    assert any(re.search("already finished: all 24 updates completed", text) for text in listener.messages)
    listener = Listener()
    more = trained(run_options | {"training": run_options["training"] | {"updates": 30}}, listener)
    assert more["updates"] == 30
    assert any("training.updates was 24 and is now 30" in text for text in listener.messages)
