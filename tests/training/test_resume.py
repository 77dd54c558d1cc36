"""Resuming: after any interruption the same command ends with the same bits."""

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from glassformer.errors import DirectoryError, GlassformerError, SettingsError
from glassformer.training.checkpoint import newest_checkpoint
from tests.examples import cases, only_in_test_all
from tests.training.runs import (
    Listener,
    Signalled,
    fingerprint,
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


@only_in_test_all
def test_killed_at_random_moments_it_ends_with_the_same_bits(uninterrupted, tmp_path):
    """With dropout and gradient accumulation; `GLASSFORMER_KILLS` kills hit epochs, validations and saves."""
    started = time.monotonic()
    run_without_interruption(tmp_path / "timed")
    shortest = time.monotonic() - started
    moments = random.Random()  # not seeded: the clock decides anyway where a kill hits
    killed = 0
    for number in range(10 * KILLS):
        run_options = options(tmp_path, out=f"run-{number}")
        times = 0
        process = None
        while process is None or process.exitcode != 0:  # one run, killed and restarted until it completes
            started = time.monotonic()
            process = in_own_process(run_options)
            process.join(moments.uniform(0.1, 1) * shortest if times < 4 else 120)
            if process.exitcode is None:
                process.kill()
                process.join()
                times += 1
                killed += 1
            elif times == 0:
                shortest = min(shortest, time.monotonic() - started)
        assert process.exitcode == 0
        assert fingerprint(Path(run_options["out"])) == uninterrupted, f"killed {times} times"
        if killed >= KILLS:
            return
    pytest.fail(f"only {killed} of {KILLS} kills hit a running training process")


@pytest.mark.parametrize("update", cases(1, 7, more=[6, 12, 23]))
def test_killed_after_any_update_it_ends_with_the_same_bits(uninterrupted, tmp_path, update):
    """Before the first checkpoint, just before and after one, and shortly before the end."""
    run_options = options(tmp_path)
    killed_at(run_options, update)
    in_own_process(run_options).join(120)
    assert fingerprint(Path(run_options["out"])) == uninterrupted


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
