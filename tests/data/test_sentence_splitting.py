"""Sentence splitting: at the best boundaries, and lossless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.sentence_splitting import split
from tests.examples import max_examples


def words(text: str) -> int:
    return len(text.split())


@max_examples(500)
@given(st.text(st.sampled_from("ab .!?,;。、\u2028\n"), max_size=60), st.integers(1, 20), st.booleans())
def test_parts_concatenate_to_the_text_and_fit(text, max_length, by_words):
    length = words if by_words else len
    parts = split(text, length, max_length)
    assert "".join(parts) == text
    assert all(length(part) <= max_length for part in parts)
    assert len(parts) == 1 or all(parts)
    if length(text) <= max_length:
        assert parts == [text]


@pytest.mark.parametrize(
    ("text", "max_length", "parts"),
    [
        ("One two. Three four! Five?", 2, ["One two. ", "Three four! ", "Five?"]),
        ("One two. Three four! Five?", 4, ["One two. Three four! ", "Five?"]),
        ('He said "go." She went.', 3, ['He said "go." ', "She went."]),
        ("one two, three four", 2, ["one two, ", "three four"]),
        ("one two three", 2, ["one two ", "three"]),
        ("It costs 3.50 here. So.", 4, ["It costs 3.50 here. ", "So."]),
    ],
)
def test_sentence_ends_come_first(text, max_length, parts):
    assert split(text, words, max_length) == parts


def test_a_text_without_any_boundary_is_split_in_the_middle():
    assert split("x" * 10, len, 3) == ["xx", "xxx", "xx", "xxx"]
