"""Whatever interrupts a run costs nothing: the same command ends with the same bits."""

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
    """What an undisturbed run ends with."""
    return fingerprint(undisturbed(tmp_path_factory.mktemp("undisturbed")))


def undisturbed(folder: Path) -> Path:
    asked = options(folder)
    process = in_own_process(asked)
    process.join(120)
    assert process.exitcode == 0
    return Path(asked["out"])


def test_a_run_is_the_same_every_time(uninterrupted, tmp_path):
    assert fingerprint(undisturbed(tmp_path)) == uninterrupted


@only_in_test_all
def test_killed_at_random_moments_it_ends_with_the_same_bits(uninterrupted, tmp_path):
    """Dropout and accumulation on, in the middle of epochs, of validations and of saves. `GLASSFORMER_KILLS=200`."""
    started = time.monotonic()
    undisturbed(tmp_path / "timed")
    shortest = time.monotonic() - started
    moments = random.Random()  # new ones every time; the seed is of no use, for the clock decides
    killed = 0
    for number in range(10 * KILLS):
        asked = options(tmp_path, out=f"run-{number}")
        times = 0
        process = None
        while process is None or process.exitcode != 0:  # one run, killed until it gets through
            started = time.monotonic()
            process = in_own_process(asked)
            process.join(moments.uniform(0.1, 1) * shortest if times < 4 else 120)
            if process.exitcode is None:
                process.kill()
                process.join()
                times += 1
                killed += 1
            elif times == 0:
                shortest = min(shortest, time.monotonic() - started)
        assert process.exitcode == 0
        assert fingerprint(Path(asked["out"])) == uninterrupted, f"killed {times} times"
        if killed >= KILLS:
            return
    pytest.fail(f"only {killed} of {KILLS} kills hit a running trainer")


@pytest.mark.parametrize("update", cases(1, 7, more=[6, 12, 23]))
def test_killed_after_any_update_it_ends_with_the_same_bits(uninterrupted, tmp_path, update):
    """Before the first save, just before and after one, and shortly before the end."""
    asked = options(tmp_path)
    killed_at(asked, update)
    in_own_process(asked).join(120)
    assert fingerprint(Path(asked["out"])) == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_leaves(uninterrupted, tmp_path, number):
    """After the update in which it was asked."""
    asked = options(tmp_path)
    run = Path(asked["out"])
    process = in_own_process(asked, Signalled(8, number))
    process.join(120)
    assert process.exitcode == 128 + number
    assert newest_checkpoint(run, pytest.fail).state.update == 8
    in_own_process(asked).join(120)
    assert fingerprint(run) == uninterrupted


@only_in_test_all
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_from_outside_it_leaves_within_five_seconds(tmp_path, number):
    asked = options(tmp_path, updates=100_000)
    process = in_own_process(asked)
    while not (Path(asked["out"]) / "step-6").exists():
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, number)
    asked_at = time.monotonic()
    process.join(20)
    assert time.monotonic() - asked_at < 5
    assert process.exitcode == 128 + number
    assert newest_checkpoint(Path(asked["out"]), pytest.fail).state.update >= 6


def stopped_after_twelve(tmp_path: Path) -> dict:
    """A run with two checkpoints, step-6 and step-12, and more to do."""
    asked = options(tmp_path)
    killed_at(asked, 13)
    return asked


@pytest.mark.parametrize(
    "file", cases("model.safetensors", more=["optimizer.safetensors", "state.json", "manifest.json"])
)
def test_a_damaged_checkpoint_is_set_aside_loudly(uninterrupted, tmp_path, file):
    asked = stopped_after_twelve(tmp_path)
    run = Path(asked["out"])
    path = run / "step-12" / file
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    listener = Listener()
    trained(asked, listener)
    assert any("step-12" in text and "damaged-step-12" in text for text in listener.sayings), listener.sayings
    assert any("Going on from" in text and "step-6" in text for text in listener.sayings)
    assert (run / "damaged-step-12").is_dir()
    assert fingerprint(run) == uninterrupted


def test_two_trainers_on_one_directory_the_second_refuses(tmp_path):
    asked = options(tmp_path, updates=100_000)
    run = Path(asked["out"])
    process = in_own_process(asked)
    while not (run / "step-6").exists():
        assert process.is_alive()
        time.sleep(0.01)
    try:
        with pytest.raises(DirectoryError, match=rf"another process \(process {process.pid} on "):
            trained(asked)
    finally:
        process.kill()
        process.join()


def test_what_a_killed_save_left_is_swept_away(tmp_path):
    asked = stopped_after_twelve(tmp_path)
    left = Path(asked["out"]) / ".building-step-18-12345678"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    train_silently(asked)
    assert not left.exists()


def test_other_settings_are_refused_by_name(tmp_path):
    asked = stopped_after_twelve(tmp_path)
    changed = asked | {"seed": 2, "training": asked["training"] | {"label_smoothing": 0.2}}
    with pytest.raises(SettingsError, match=r"label_smoothing was 0.1 and is now 0.2; seed was 1 and is now 2"):
        trained(changed)


def test_another_corpus_is_refused(tmp_path):
    asked = stopped_after_twelve(tmp_path)
    with Path(asked["data"]["target"]).open("r+") as file:
        file.write("X")
    with pytest.raises(GlassformerError, match="The corpus is no longer the one"):
        trained(asked)


def test_a_finished_run_says_so_and_can_be_asked_for_more(tmp_path):
    asked = options(tmp_path)
    first = trained(asked)
    listener = Listener()
    assert trained(asked, listener) == first
    assert any(re.search("finished already: all 24 updates are done", text) for text in listener.sayings)
    listener = Listener()
    more = trained(asked | {"training": asked["training"] | {"updates": 30}}, listener)
    assert more["updates"] == 30
    assert any("training.updates was 24 and is now 30" in text for text in listener.sayings)
