"""The C engine on random models of odd shapes, under sanitizers, for several processors: no report, no broken law.

`make test-all` tries 100 models per instruction set, `make sanitize` 1,000. A failure shows the command that
repeats it.
"""

import os
import random
import shutil

import pytest

from tests.examples import SEED, only_in_test_all, seeded_random
from tests.fuzz.kept_inputs import mutated
from tests.native.programs import (
    ADDRESS,
    INSTRUCTION_SETS,
    KEPT_INPUTS,
    NATIVE,
    THREAD,
    TRAPPING,
    compile_program,
    cross_tools,
    missing_feature,
    run_program,
)

MODELS = int(os.environ.get("GLASSFORMER_MODELS", "100"))
INPUTS = 1200
FIRST = seeded_random("random models").randrange(10**9)
CROSS_COMPILER, EMULATOR = cross_tools()
pytestmark = [
    only_in_test_all,
    pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc, whose sanitizers are used"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory, worker_id):
    """Compiles a program once for all worker processes."""
    base = tmp_path_factory.getbasetemp()
    directory = base if worker_id == "master" else base.parent
    return lambda name, compiler, *flags: compile_program(directory / name, compiler, *flags)


def sanitized(compiled, instruction_set):
    if missing_feature(instruction_set):
        pytest.skip(f"this processor cannot run programs for {instruction_set}")
    return compiled(f"random-models-{instruction_set}", "gcc", INSTRUCTION_SETS[instruction_set][0], *ADDRESS)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_random_models_keep_every_law(compiled, instruction_set):
    program = sanitized(compiled, instruction_set)
    assert run_program(program, "models", str(FIRST), str(MODELS)) == f"{MODELS} models\n"


def test_every_allocation_may_fail(compiled):
    """In a greedy, a beam and a recurrent search, steps chosen by the caller, and given targets, of each seed."""
    program, seeds = sanitized(compiled, "native"), max(1, MODELS // 200)
    allocations, count = run_program(program, "failing", str(FIRST), str(seeds)).splitlines()
    assert int(allocations.split()[0]) > 100 * seeds
    assert count == f"{seeds} models"


def test_inputs_that_fuzzing_found_keep_every_law(compiled):
    kept = [bytes.fromhex(line) for line in KEPT_INPUTS.read_text().split()]
    chance = random.Random(f"engine {SEED}")
    changed = [mutated(chance.choice(kept), chance.choice(kept), (), chance) for _ in range(INPUTS - len(kept))]
    lines = "".join(f"{data.hex()}\n" for data in [*kept, *changed])
    assert run_program(sanitized(compiled, "native"), "replay", stdin=lines) == f"{max(INPUTS, len(kept))} inputs\n"


def test_threads_share_a_model(compiled):
    program, count = compiled("threads", "gcc", NATIVE, *THREAD), max(6, MODELS // 10)
    assert run_program(program, "threads", str(FIRST), str(count)) == f"{count} models\n"


@pytest.mark.skipif(
    not (CROSS_COMPILER and EMULATOR),
    reason="AArch64 needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user (names of Debian's packages)",
)
def test_aarch64_keeps_every_law_and_finds_the_same(compiled):
    program, count = compiled("aarch64", CROSS_COMPILER, *TRAPPING), max(6, MODELS // 10)
    assert run_program(EMULATOR, program, "models", str(FIRST), str(count)) == f"{count} models\n"
    theirs = run_program(EMULATOR, program, "print", str(FIRST), str(count)).splitlines()
    ours = run_program(sanitized(compiled, "native"), "print", str(FIRST), str(count)).splitlines()
    same = sum(line.split()[1:] == other.split()[1:] for line, other in zip(ours, theirs, strict=True))
    assert same >= 0.97 * len(ours)  # rounding differs: a search may decide otherwise between nearly equal tokens
    for line, other in zip(ours, theirs, strict=True):
        if not line.startswith("seed") and line.split()[1:] == other.split()[1:]:
            assert float(line.split()[0]) == pytest.approx(float(other.split()[0]), rel=1e-3, abs=1e-3)
