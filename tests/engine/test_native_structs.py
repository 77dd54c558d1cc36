"""Declarations that Python repeats from the C headers: checked when the library is loaded."""

import pytest

from glassformer.engine.native_library import library
from glassformer.engine.native_structs import check_layout

needs_compiler = pytest.mark.skipif(library() is None, reason="there is no C compiler")


class Altered:
    """The library, but one size or constant is another."""

    def __init__(self, number: int) -> None:
        self.number = number

    def layout(self, number: int) -> int:
        return library().layout(number) + (number == self.number)


@needs_compiler
def test_the_library_has_the_layout_that_python_declares():
    check_layout(library())


@needs_compiler
@pytest.mark.parametrize("number", range(21))
def test_any_difference_is_noticed(number):
    with pytest.raises(RuntimeError, match=r"native_structs\.py differs from the C headers"):
        check_layout(Altered(number))
