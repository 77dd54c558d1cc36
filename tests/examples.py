"""Number and seed of the examples of property-based tests.

`make test` tries the same few every time: at most `MAX_QUICK_EXAMPLES` per test, seeded by the test itself. `make
test-all` tries all of them, from a fresh seed, which it prints. A failure it finds is added to its test with
`@example(...)`.
"""

import ast
import os
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SEED = os.environ.get("GLASSFORMER_TEST_SEED")
"""Set by `make test-all`."""
ALL = SEED is not None
MAX_QUICK_EXAMPLES = 12

only_in_test_all = pytest.mark.skipif(not ALL, reason="`make test-all` runs it")


def max_examples(count: int, **options: Any) -> settings:
    """The decorator of a test that `make test-all` runs on `count` random examples.

    Tests with small counts are slow ones, so `make test` tries a quarter of them, but at least three.
    """
    return settings(max_examples=count if ALL else max(3, min(count // 4, MAX_QUICK_EXAMPLES)), **options)


def cases(*few: Any, more: Iterable[Any] = ()) -> list[Any]:
    """Parameters of a test: `make test` tries `few`, `make test-all` also `more`."""
    return [*few, *(more if ALL else ())]


def seeded_random(name: str) -> random.Random:
    """A random generator for tests without hypothesis: the same every time in `make test`, fresh in `make test-all`."""
    return random.Random(f"{SEED or 'fixed'} {name}")


def example_decorator(report: str) -> str | None:
    """The decorator that repeats the failing example of a pytest report; None if the test does not use hypothesis."""
    text = re.sub(r"^E( {3})?", "", report, flags=re.MULTILINE)
    match = re.search(r"Failing test case: \w+\(\n(.*?)^ *\)$", text, re.MULTILINE | re.DOTALL)
    if not match:
        return None
    reproduce = re.search(r"@reproduce_failure\(.*?\)", text)
    if reproduce and "=data(...)" in match[1]:  # draws inside the test cannot be written as arguments
        return reproduce[0]
    listing = match[1].replace(",  # or any other generated value\n", ",\n")
    indent = re.match(" *", listing)[0]  # the fields of an argument's value are indented further
    arguments = re.split(rf",\n{indent}(?=\w+=)", listing.rstrip(",\n"))
    return f"@example({', '.join(argument.strip() for argument in arguments if _is_python(argument))})"


def _is_python(argument: str) -> bool:
    """Whether an argument is valid Python: values of fixtures are shown as `<... object at ...>`."""
    try:
        ast.parse(f"f({argument.strip()}\n)")
    except SyntaxError:
        return False
    return True


def use_profile() -> None:
    """Register and load the settings of hypothesis for all tests."""
    settings.register_profile(
        "glassformer",
        max_examples=100 if ALL else MAX_QUICK_EXAMPLES,
        derandomize=not ALL,
        deadline=None,  # tests may run on a slow machine
        print_blob=True,
        suppress_health_check=[
            HealthCheck.too_slow,  # building a model is "slow data" to hypothesis
            HealthCheck.data_too_large,
            HealthCheck.function_scoped_fixture,
        ],
    )
    settings.load_profile("glassformer")
    _ignore_local_constants()


def _ignore_local_constants() -> None:
    """Keep hypothesis from drawing constants that it finds in the modules imported so far.

    With them a seed would give other examples when tests run in another order or worker process, or after an edit
    anywhere: `make test` would not be the same every time, and `make test-all SEED=n` would not repeat a failure. There
    is no public switch; tests/test_examples.py fails if this one stops working.
    """
    none = providers.Constants(integers=set(), floats=set(), bytes=set(), strings=set())
    providers._get_local_constants = lambda: none
