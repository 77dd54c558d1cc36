"""`make test` draws the same examples every time, `make test-all` new ones; a failure is printed as an `@example`."""

import os

import pytest
from hypothesis import example, given

from glassformer.model import ModelConfig
from tests.examples import MAX_QUICK_EXAMPLES, example_decorator
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
    def test(number, text, decimal):
        drawn.append((number, text, decimal))

    test()
    print(repr(drawn))
"""


def drawn(before: str = "", **added: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "GLASSFORMER_TEST_SEED"}
    return run_fresh(DRAWN.format(before=before), env=inherited | added)


def test_examples_do_not_depend_on_what_is_imported():
    """Hypothesis draws constants of the modules that happen to be loaded, which depends on the other tests."""
    alone = drawn()
    assert alone.count("(") == MAX_QUICK_EXAMPLES
    assert (
        drawn("import tests.data.test_subword_segmentation, tests.server.running, glassformer.builtin.street.lexicon")
        == alone
    )


def test_all_examples_are_fresh_ones():
    one, other = (drawn(GLASSFORMER_TEST_SEED="1") for _ in range(2))
    assert one != other
    assert one.count("(") >= 100


def test_a_failure_is_printed_as_an_example():
    """The printed line is a decorator that repeats the failure."""
    tried = []

    @given(config=configs(), seed=seeds)
    def failing(config, seed):
        tried.append((config, seed))
        assert config.d_model < 5, "too wide"

    with pytest.raises(AssertionError) as error:
        failing()
    fixture = "    made=Made(path=PosixPath('/'),\n     trace=<Trace at 0x1>,\n     count=3),\n"
    notes = [note.replace("    seed=", f"{fixture}    seed=") for note in error.value.__notes__]
    report = "\n".join(f"E   {line}" for note in notes for line in note.splitlines())
    decorator = eval(example_decorator(report).removeprefix("@"), {"example": example, "ModelConfig": ModelConfig})
    assert decorator(given(config=configs(), seed=seeds)(lambda config, seed: None))
    assert tried[-1][0].d_model == 5
    assert example_decorator("E   assert 1 == 2") is None
