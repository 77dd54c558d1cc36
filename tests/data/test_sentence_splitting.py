"""A long text is cut where it hurts least, and nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.sentence_splitting import split
from tests.examples import max_examples


def words(text: str) -> int:
    return len(text.split())


@max_examples(500)
@given(st.text(st.sampled_from("ab .!?,;。、\u2028\n"), max_size=60), st.integers(1, 20), st.booleans())
def test_parts_make_the_text_and_fit(text, longest, by_words):
    length = words if by_words else len
    parts = split(text, length, longest)
    assert "".join(parts) == text
    assert all(length(part) <= longest for part in parts)
    assert len(parts) == 1 or all(parts)
    if length(text) <= longest:
        assert parts == [text]


@pytest.mark.parametrize(
    ("text", "longest", "parts"),
    [
        ("One two. Three four! Five?", 2, ["One two. ", "Three four! ", "Five?"]),
        ("One two. Three four! Five?", 4, ["One two. Three four! ", "Five?"]),
        ('He said "go." She went.', 3, ['He said "go." ', "She went."]),
        ("one two, three four", 2, ["one two, ", "three four"]),
        ("one two three", 2, ["one two ", "three"]),
        ("It costs 3.50 here. So.", 4, ["It costs 3.50 here. ", "So."]),
    ],
)
def test_sentence_ends_come_first(text, longest, parts):
    assert split(text, words, longest) == parts


def test_a_text_without_any_place_is_cut_in_the_middle():
    assert split("x" * 10, len, 3) == ["xx", "xxx", "xx", "xxx"]
