"""Training with helper processes that die or hang: it ends with one sentence, and Ctrl-C ends it at once."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from glassformer.training.distributed import local_group
from glassformer.training.stop_signals import interruptible
from tests.examples import cases
from tests.training.runs import helper_processes, in_own_process, options, started

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def endless(tmp_path: Path) -> dict:
    return options(tmp_path, ranks=2, micro_batches=2, updates=100_000)


def helper_of(process: BaseProcess) -> int:
    """The process id of a training process's helper, as soon as it has started."""
    while process.is_alive():
        if helpers := helper_processes(process):
            return helpers[0]
        time.sleep(0.005)
    pytest.fail("the training process has ended without a helper")


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("seconds", cases(0, 1.0, more=[tenths / 10 for tenths in range(1, 31)]))
def test_a_helper_killed_at_any_moment_is_one_sentence(tmp_path, seconds):
    """Killed while it imported torch, it left rank 0 waiting for half an hour, deaf to Ctrl-C."""
    process, outcome = started(endless(tmp_path))
    helper = helper_of(process)
    time.sleep(seconds)
    os.kill(helper, signal.SIGKILL)
    try:
        assert outcome.poll(120), "training goes on without its helper"
        error, _ = outcome.recv()
    finally:
        process.kill()
        process.join()
    assert str(error).startswith("A helper process of this run ended unexpectedly")


def test_ctrl_c_ends_the_wait_for_a_helper(tmp_path):
    process = in_own_process(endless(tmp_path))
    helper = helper_of(process)
    os.kill(helper, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    try:
        assert process.exitcode is not None
        assert has_ended(helper)
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("seconds", cases(2.0, more=[tenths / 5 for tenths in range(20)]))
def test_ctrl_c_ends_any_phase(tmp_path, seconds):
    """While text is read, a tokenizer is trained, ranks meet, the loop runs, results are written."""
    process = in_own_process(options(tmp_path, ranks=2, micro_batches=2))
    time.sleep(seconds)
    assert_ends_in_time(process, (130, 1, 0))  # 1: before the first update; 0: the run was over


def test_ctrl_c_ends_a_run_whose_helper_no_longer_answers(tmp_path):
    """The main thread waits in gloo, where no handler of Python's runs, for up to half an hour."""
    run_options = endless(tmp_path)
    process = in_own_process(run_options)
    while not (Path(run_options["out"]) / "step-6").exists():
        assert process.is_alive()
        time.sleep(0.01)
    helper = helper_of(process)
    os.kill(helper, signal.SIGSTOP)
    time.sleep(0.5)
    assert_ends_in_time(process, (130,))
    assert has_ended(helper)


def assert_ends_in_time(process: BaseProcess, exit_codes: tuple[int, ...]) -> None:
    """Send Ctrl-C and wait. The process ends in five seconds on a machine that is not busy with other work.

    On a fast machine it may be over before.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGINT)
    process.join(30)
    try:
        assert process.exitcode in exit_codes
    finally:
        process.kill()
        process.join()


def test_ctrl_c_while_a_helper_is_being_started_ends_the_helper(tmp_path, monkeypatch):
    """It came between the fork and the note of the process id, and left a process that nobody ended."""
    started: list[subprocess.Popen] = []

    class InterruptedPopen(subprocess.Popen):
        def __init__(self, *arguments, **keywords):
            super().__init__(["sleep", "600"], **keywords)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", InterruptedPopen)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), local_group(2, tmp_path):
            pytest.fail("the signal was lost")
    finally:
        signal.signal(signal.SIGINT, before)
    assert has_ended(started[0].pid)


def test_a_helper_ends_if_rank_0_was_killed_before_they_met(tmp_path):
    process = in_own_process(endless(tmp_path))
    helper = helper_of(process)
    os.kill(helper, signal.SIGSTOP)
    process.kill()
    process.join()
    os.kill(helper, signal.SIGCONT)
    patience = time.monotonic() + 60
    while not has_ended(helper) and time.monotonic() < patience:
        time.sleep(0.02)
    if not has_ended(helper):
        os.kill(helper, signal.SIGKILL)
        pytest.fail("the helper waits for a process that is gone")


def test_python_exits_while_an_interrupted_computation_goes_on():
    """A tokenizer's training that ended while Python was being finalised once aborted the process."""
    code = """
        import sys, time
        from glassformer.builtin import street
        from glassformer.data import Pair, TokenizerSettings, train_tokenizer
        from glassformer.training.stop_signals import interruptible

        class SlowToFinalise:
            def __del__(self, sleep=time.sleep):
                sleep(5)

        def interrupt():
            if time.monotonic() > began + 0.3:  # SentencePiece is at work
                raise KeyboardInterrupt

        slow = SlowToFinalise()
        pairs = [Pair(1, pair.source, pair.target) for pair in street.sentences("train", 20_000)]
        began = time.monotonic()
        try:
            interruptible(lambda: train_tokenizer(TokenizerSettings(vocab_size=1000), pairs), interrupt)
        except KeyboardInterrupt:
            sys.exit(130)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, b"")


def test_ctrl_c_ends_the_wait_for_a_computation_outside_python():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    end = threading.Event()
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(end.wait, lambda: os.kill(os.getpid(), signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
        end.set()
    assert interruptible(lambda: 3) == 3
