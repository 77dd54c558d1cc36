"""How many examples of a law are tried, and which.

`make test` tries the same few every time: at most `FEW` per law, drawn from the test itself. `make test-all` tries all
of them, drawn from a fresh seed, which it prints. A failure it finds is kept beside its test with `@example(...)`.
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
FEW = 12

only_in_test_all = pytest.mark.skipif(not ALL, reason="`make test-all` runs it")


def max_examples(count: int, **options: Any) -> settings:
    """The decorator of a law that `make test-all` tries on `count` random examples.

    Laws with small counts are slow ones, so `make test` tries a quarter of those; but three at least.
    """
    return settings(max_examples=count if ALL else max(3, min(count // 4, FEW)), **options)


def cases(*few: Any, more: Iterable[Any] = ()) -> list[Any]:
    """Parameters of a test: `make test` tries the few, `make test-all` more."""
    return [*few, *(more if ALL else ())]


def dice(name: str) -> random.Random:
    """Random numbers for tests without hypothesis: always the same in `make test`, fresh ones in `make test-all`."""
    return random.Random(f"{SEED or 'fixed'} {name}")


def case_to_keep(report: str) -> str | None:
    """The decorator that repeats what failed in a report of pytest's; None where hypothesis had no part in it."""
    text = re.sub(r"^E( {3})?", "", report, flags=re.MULTILINE)
    found = re.search(r"Failing test case: \w+\(\n(.*?)^ *\)$", text, re.MULTILINE | re.DOTALL)
    if not found:
        return None
    again = re.search(r"@reproduce_failure\(.*?\)", text)
    if again and "=data(...)" in found[1]:  # draws inside the test cannot be written down
        return again[0]
    told = found[1].replace(",  # or any other generated value\n", ",\n")
    arguments = re.split(r",\n(?= *\w+=)", told.rstrip(",\n"))
    return f"@example({', '.join(argument.strip() for argument in arguments if _is_python(argument))})"


def _is_python(argument: str) -> bool:
    """Whether an argument can be written down: what fixtures give is shown as `<... object at ...>`."""
    try:
        ast.parse(f"f({argument.strip()}\n)")
    except SyntaxError:
        return False
    return True


def use_profile() -> None:
    """Settings of hypothesis for every law."""
    settings.register_profile(
        "laws",
        max_examples=100 if ALL else FEW,
        derandomize=not ALL,
        deadline=None,  # a law may be tried on a slow machine
        print_blob=True,
        suppress_health_check=[
            HealthCheck.too_slow,  # building a model is "slow data" to hypothesis
            HealthCheck.data_too_large,
            HealthCheck.function_scoped_fixture,
        ],
    )
    settings.load_profile("laws")
    if not ALL:
        _ignore_local_constants()


def _ignore_local_constants() -> None:
    """Keep hypothesis from drawing constants that it finds in whichever modules are imported so far.

    With them a derandomized law would draw other examples when tests run in another order or in another worker process,
    or after an edit anywhere. There is no public switch; tests/test_examples.py fails if this one stops working.
    """
    nothing = providers.Constants(integers=set(), floats=set(), bytes=set(), strings=set())
    providers._get_local_constants = lambda: nothing
