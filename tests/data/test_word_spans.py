"""Words of tokens: every text token is in exactly one word, in order, with the marks of any tokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import (
    IdsOnly,
    ImportedTokenizer,
    ImportedTokenizerSettings,
    Pair,
    TokenizerSettings,
    train_tokenizer,
)
from glassformer.data.word_spans import SPECIALS, Marks, marks_in, marks_of, words
from tests.small_translator import tokenizer

KINDS = ("sentencepiece", "byte-level", "subword-nmt", "words")
MARKED = {
    "sentencepiece": lambda text, begins: f"▁{text}" if begins else text,
    "byte-level": lambda text, begins: f"Ġ{text}" if begins else text,
    "subword-nmt": lambda text, begins: text if begins else f"{text}@@",
    "words": lambda text, begins: text,
}
TEXTS = ["a", "tired", "n", "'", "t", ".", ",", "(", "3", "€", "“", "-", "我", "。"]


@st.composite
def marked_pieces(draw):
    """Tokens with the marks of some tokenizer, including tags and ends; for SentencePiece, also spaces and bytes."""
    kind = draw(st.sampled_from(KINDS))
    pieces = st.builds(MARKED[kind], st.sampled_from(TEXTS), st.booleans())
    others = ["<2de>", "</s>"] + (["▁", "<0xE2>", "<0x82>", "<0xAC>", "<0x2E>"] if kind == "sentencepiece" else [])
    found = draw(st.lists(pieces | st.sampled_from(others), max_size=12))
    return found, Marks(kind, SPECIALS | {"<2de>"})


def texts(pieces, marks=None, apart=True):
    return [word.text for word in words(pieces, marks, apart)]


@given(marked_pieces(), st.booleans())
def test_words_have_every_token_of_the_text_once_and_in_order(drawn, apart):
    pieces, marks = drawn
    found = words(pieces, marks, apart)
    taken = [place for word in found for place in range(word.first, word.end)]
    assert taken == sorted(set(taken))
    left = [pieces[place] for place in range(len(pieces)) if place not in taken]
    assert all(piece in ("▁", "<2de>", "</s>") for piece in left)
    assert not any(pieces[place] in ("<2de>", "</s>") for place in taken)
    assert all(word.text for word in found)


@given(marked_pieces())
def test_splitting_punctuation_only_divides_words_between_spaces(drawn):
    pieces, marks = drawn
    whole, apart = words(pieces, marks, apart=False), words(pieces, marks)
    ends = {word.end for word in apart}
    assert {word.end for word in whole} <= ends
    assert len(apart) >= len(whole)


@given(st.lists(st.sampled_from(["the", "tired,", "dog", "(it's", "so)", "3.5", "“Straße”", "U.S.", "ﷺ", "我们"])))
def test_words_split_at_spaces_are_those_of_the_text(parts):
    own = tokenizer()
    text = " ".join(parts)
    ids = own.encode(text, "source")
    pieces = own.pieces(ids, "source")
    assert texts(pieces, marks_of(own), apart=False) == text.split()
    assert "".join(texts(pieces, marks_of(own))) == "".join(text.split())


def test_punctuation_at_the_edges_is_a_word_and_inside_is_not():
    pieces = ["▁The", "▁dog", "▁did", "n", "'", "t", ",", "▁the", "▁", "(", "cat", ")", ".", "</s>"]
    assert texts(pieces) == ["The", "dog", "didn't", ",", "the", "(", "cat", ")", "."]
    assert texts(pieces, apart=False) == ["The", "dog", "didn't,", "the", "(cat)."]
    assert texts(["▁", ".", ".", "</s>"]) == [".", "."]


def test_bytes_stay_with_their_word_and_are_read():
    assert texts(["▁3", "<0xE2>", "<0x82>", "<0xAC>", "▁x", "</s>"]) == ["3€", "x"]
    assert texts(["▁a", "<0xE2>", "</s>"]) == ["a\ufffd"]


def test_spaces_belong_to_the_word_after_them_else_to_the_one_before():
    spans = [(word.first, word.end) for word in words(["▁", "▁a", "▁", "▁b", "▁", "▁", "</s>"])]
    assert spans == [(0, 2), (2, 6)]
    assert words(["▁", "</s>"]) == []
    assert words([]) == []


def test_in_scripts_without_spaces_every_token_is_a_word():
    assert texts(["▁我", "喜欢", "你", "。", "ok", "！", "</s>"]) == ["我", "喜欢", "你", "。", "ok", "！"]


def test_marks_are_guessed_from_pieces():
    assert texts(["Hel", "lo", "Ġworld", "!", "Ġâ", "Ģ", "ľ", "</s>"]) == ["Hello", "world", "!", "“"]
    assert texts(["did@@", "n@@", "'t", "go", ".", "</s>"]) == ["didn't", "go", "."]
    assert texts(["a", "b", "</s>"]) == ["a", "b"]
    assert marks_in(["▁Ġa"]).segmenter == "sentencepiece"  # a letter of Maltese


def imported(cut, model, vocabulary, **settings):
    own = ImportedTokenizerSettings(cut=cut, joint=True, after_source=["</s>"], after_target=["</s>"], **settings)
    return ImportedTokenizer.joint(own, ["<unk>", "</s>", *vocabulary], model)


@pytest.mark.parametrize(
    ("made", "text", "wanted"),
    [
        (
            imported("subword-nmt", b"#version: 0.2\na b\n", ["ab@@", "c", "x", "."]),
            "abc x .",
            ["abc", "x", "."],
        ),
        (imported("words", b"", ["the", "dog", "."]), "the cat .", ["the", "<unk>", "."]),
        (
            imported("byte-level", b"#version: 0.2\na b\n", ["ab", "c", "Ġ", "x", "."]),
            "abc x.",
            ["abc", "x", "."],
        ),
    ],
)
def test_imported_tokenizers(made, text, wanted):
    pieces = made.pieces(made.encode(text, "source"), "source")
    assert texts(pieces, marks_of(made)) == wanted


def test_languages_and_tags_of_imported_tokenizers_are_not_words():
    made = imported(
        "words",
        b"",
        ["deu_Latn", ">>fra<<", "<mask>", "a"],
        before_source=["{target}"],
        languages={"deu": "deu_Latn"},
        target_language="deu",
        tags=["<mask>"],
        opening=[">>", "<<"],
    )
    pieces = made.pieces(made.encode(">>fra<< a <mask> a", "source"), "source")
    assert pieces == ["deu_Latn", ">>fra<<", "a", "<mask>", "a", "</s>"]
    assert texts(pieces, marks_of(made)) == ["a", "a"]


def test_the_unknown_token_of_a_word_vocabulary_is_a_word():
    pairs = [Pair(1, "the dog sleeps", "der Hund schläft")]
    own = train_tokenizer(TokenizerSettings(kind="word", vocab_size=20), pairs)
    pieces = own.pieces(own.encode("the cat sleeps", "source"), "source")
    assert texts(pieces, marks_of(own)) == ["the", "<unk>", "sleeps"]


def test_tags_of_glassformer_tokenizers_are_not_words():
    pairs = [Pair(1, "<2de> the dog sleeps", "der Hund schläft")]
    own = train_tokenizer(TokenizerSettings(vocab_size=300, tags=["<2de>"]), pairs)
    pieces = own.pieces(own.encode("<2de> the dog", "source"), "source")
    assert texts(pieces, marks_of(own)) == ["the", "dog"]


def test_ids_without_a_tokenizer_are_words():
    assert texts(["5", "7"], marks_of(IdsOnly())) == ["5", "7"]
