"""The C engine runs out of memory, at every allocation: one sentence, and afterwards the same results as before."""

import ctypes
import subprocess

import pytest

from glassformer.decoding import Beam, Request, SearchBackend
from glassformer.engine.instruction_sets import SOURCES
from glassformer.engine.native_library import _compiler, _declare_functions, library
from glassformer.engine.native_model import NativeBatchSearch, NativeStepModel, NativeStepSession
from glassformer.errors import InputError
from glassformer.model import ModelConfig
from tests.decoding.test_search_on_models import lively
from tests.examples import ALL
from tests.processes import ROOT

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
NO_MEMORY = "There is not enough memory to translate this many sentences at once"


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """The engine with a function that makes its n-th allocation fail."""
    path = tmp_path_factory.mktemp("native") / "failing.so"
    wrappers = ["-include", str(ROOT / "tests/native/failing_allocations.h")]
    command = [_compiler(), "-std=gnu11", "-O0", "-shared", "-fPIC", *wrappers, "-o", str(path)]
    subprocess.run([*command, str(SOURCES / "transformer.c"), "-lm"], check=True)
    native = _declare_functions(ctypes.CDLL(str(path)))
    native.fail_allocation.argtypes = [ctypes.c_long, ctypes.c_int]
    native.allocations_made.restype = ctypes.c_long
    yield native
    native.fail_allocation(0, 0)


def small(**options):
    shape = {"vocab_size": 40, "d_model": 24, "n_heads": 2, "d_ff": 20, "encoder_layers": 1, "decoder_layers": 1}
    return lively(ModelConfig(**shape | options), 0).float()


REQUESTS = [Request([5, 6, 2], heads=((0, 1),)), Request([7, 2]), Request([9] * 20, prefix=(4, 8), heads=((0, 0),))]


def search_all(running: NativeBatchSearch, step_model, settings):
    tasks = SearchBackend(step_model).tasks(REQUESTS, settings, range(len(REQUESTS)))
    running.join(tasks[:2])
    results = running.advance()
    running.join(tasks[2:])
    while len(results) < len(tasks):
        results += running.advance()
    results.sort(key=lambda result: result[0])
    attention = [hypothesis.attention for _, n_best in results for hypothesis in n_best]
    return results, [None if weights is None else weights.tolist() for weights in attention]


def step_all(session: NativeStepSession):
    """The logits of some steps, with sentences that join and leave."""
    session.join([[5, 6, 2], [7, 2]], [30, 40])
    logits = []
    for tokens, rows in (([1, 1], [0, 0, 1]), ([3, 4, 5], [0, 2, 2]), ([6, 7, 8], [1, 2])):
        logits.append(session.step(tokens, 3, (0,)).logits.tolist())
        session.keep(rows)
    session.join([[9] * 20], [50])
    return [*logits, session.step([1, 2, 3], 0, ()).logits.tolist()]


def read_all(session: NativeStepSession):
    """Scores and attention of given targets."""
    sources, targets = [[5, 6, 2], [7, 2], [9] * 20], [[4, 8, 2], [2], [6] * 30]
    attention = session.attention(sources, targets, [(0, 1), (0, 0)])
    return session.score(sources, targets), [weights.tolist() for weights in attention]


def runs(step_model):
    """Three searches in C, one step by step, and given targets: how each is opened, and run."""
    for settings in (Beam(size=1), Beam(size=4, n_best=3), Beam(size=3, n_best=1, keep_greedy=False)):
        yield (
            lambda settings=settings: NativeBatchSearch(step_model, settings, [0]),
            lambda opened, settings=settings: search_all(opened, step_model, settings),
        )
    yield lambda: step_model.open(2), step_all
    yield lambda: step_model.open(1), read_all


@pytest.mark.parametrize("for_ever", [0, 1])
@pytest.mark.parametrize("options", [{}, {"decoder_ssru": True}])
def test_a_failed_allocation_is_one_sentence_and_the_batch_can_be_used_again(failing, options, for_ever):
    step_model = NativeStepModel(small(**options), failing)
    for open_batch, run in runs(step_model):
        failing.fail_allocation(1, for_ever)
        with pytest.raises(InputError, match=NO_MEMORY):
            open_batch()
        failing.fail_allocation(0, 0)
        opened = open_batch()
        failing.fail_allocation(0, 0)
        reference = run(opened)
        for number in range(1, failing.allocations_made() + 1, 1 if ALL else 4):
            opened = open_batch()
            failing.fail_allocation(number, for_ever)
            with pytest.raises(InputError, match=NO_MEMORY):
                run(opened)
            if isinstance(opened, NativeBatchSearch):
                with pytest.raises(InputError, match="There is no sentence in the batch"):
                    opened.advance()
            failing.fail_allocation(1, for_ever)
            with pytest.raises(InputError, match=NO_MEMORY):
                run(opened)
            failing.fail_allocation(0, 0)
            assert run(opened) == reference


def test_a_model_that_does_not_fit_is_one_sentence(failing):
    failing.fail_allocation(1, 0)
    with pytest.raises(InputError, match="There is not enough memory for this model"):
        NativeStepModel(small(), failing)
    failing.fail_allocation(0, 0)
