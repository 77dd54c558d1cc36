"""`make test` draws the same examples every time; `make test-all` draws others; a failure can be kept."""

import os

import pytest
from hypothesis import example, given

from glassformer.model import ModelConfig
from tests.examples import FEW, case_to_keep
from tests.models import configs, seeds
from tests.processes import run_fresh

DRAWN = """
    {before}
    from hypothesis import given, strategies as st
    from tests.examples import max_examples, use_profile
    use_profile()
    drawn = []

    @max_examples(100)
    @given(st.integers(0, 1000), st.text(), st.floats())
    def law(number, text, decimal):
        drawn.append((number, text, decimal))

    law()
    print(repr(drawn))
"""


def drawn(before: str = "", **added: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "GLASSFORMER_TEST_SEED"}
    return run_fresh(DRAWN.format(before=before), env=inherited | added)


def test_examples_do_not_depend_on_what_is_imported():
    """Hypothesis likes to draw the constants of modules that happen to be loaded, which other tests decide."""
    alone = drawn()
    assert alone.count("(") == FEW
    assert (
        drawn("import tests.data.test_subword_segmentation, tests.server.running, glassformer.builtin.street.lexicon")
        == alone
    )


def test_all_examples_are_fresh_ones():
    one, other = (drawn(GLASSFORMER_TEST_SEED="1") for _ in range(2))
    assert one != other
    assert one.count("(") >= 100


def test_a_failure_can_be_kept():
    """What is printed is a decorator that repeats the failure."""
    tried = []

    @given(config=configs(), seed=seeds)
    def law(config, seed):
        tried.append((config, seed))
        assert config.d_model < 5, "too wide"

    with pytest.raises(AssertionError) as found:
        law()
    notes = [note.replace("    seed=", "    made=<Made at 0x1>,\n    seed=") for note in found.value.__notes__]
    report = "\n".join(f"E   {line}" for note in notes for line in note.splitlines())
    keep = eval(case_to_keep(report).removeprefix("@"), {"example": example, "ModelConfig": ModelConfig})
    assert keep(given(config=configs(), seed=seeds)(lambda config, seed: None))
    assert tried[-1][0].d_model == 5
    assert case_to_keep("E   assert 1 == 2") is None
