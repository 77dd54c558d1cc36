"""Tokenizer: lossless on any text, deterministic, and robust against damaged files."""

import pickle
import shutil
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.builtin import street
from glassformer.data import Pair
from glassformer.data.tokenizer import (
    BOS,
    EOS,
    PAD,
    UNKNOWN,
    Tokenizer,
    TokenizerSettings,
    normalise,
    train_tokenizer,
)
from glassformer.errors import DataError, GlassformerError
from tests.examples import max_examples

KINDS = ["unigram", "bpe", "char", "word"]


def pairs(count: int = 1500) -> list[Pair]:
    made = islice(street.sentences("train", count), count)
    return [Pair(n, s.source, s.target) for n, s in enumerate(made, start=1)]


@pytest.fixture(scope="module")
def tokenizers() -> dict[tuple[str, bool], Tokenizer]:
    return {
        (kind, joint): train_tokenizer(
            TokenizerSettings(kind=kind, joint=joint, vocab_size=1500, tags=["<2de>", "<2fr>"]), pairs()
        )
        for kind in KINDS
        for joint in (True, False)
    }


special = ["<s>", "</s>", "<0x41>", "<unk>", "▁", "", " ", "  two  spaces ", "日本語 x"]
awkward = ["a\u2028b", "\x00", "e\u0301", "👩‍👩‍👧", "a\tb\n", "\ufeff", "\u202eabc", "[/red]"]
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(special + awkward)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
@max_examples(150)
@given(anything, st.sampled_from(["source", "target"]))
def test_decode_of_encode_is_the_normalised_text(tokenizers, kind, joint, text, side):
    """sentencepiece#185, #766; NeMo PR#5739: text that changes on its way through the tokenizer."""
    tokenizer = tokenizers[kind, joint]
    ids = tokenizer.encode(text, side)
    assert tokenizer.decode(ids, side) == normalise(text)
    assert all(0 <= i < tokenizer.vocab_size(side) for i in ids)
    assert ids[-1] == EOS
    assert not {PAD, BOS, EOS, UNKNOWN} & set(ids[:-1]), "no text encodes to a special token"


@given(anything, st.sampled_from(KINDS))
def test_normalising_twice_is_normalising_once(text, kind):
    assert normalise(normalise(text, kind), kind) == normalise(text, kind)


@pytest.mark.parametrize("joint", [True, False])
def test_words_come_back_where_they_are_known(tokenizers, joint):
    tokenizer = tokenizers["word", joint]
    text = "The  dog crossed the river"
    assert tokenizer.pieces(tokenizer.encode(text, "source"), "source")[1:-1] == ["▁dog", "▁crossed", "▁the", "▁river"]
    assert tokenizer.decode(tokenizer.encode(text, "source"), "source") == "The dog crossed the river"
    assert UNKNOWN in tokenizer.encode("The xylophone", "source")


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_is_one_token(tokenizers, kind):
    tokenizer = tokenizers[kind, True]
    german, french = (tokenizer.encode(f"<2{language}> dog", "source") for language in ("de", "fr"))
    assert sum("<2de>" in piece for piece in tokenizer.pieces(german, "source")) == 1
    assert len(german) == len(french)
    assert german != french


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_bytes(kind):
    settings = TokenizerSettings(kind=kind, vocab_size=400)
    first, second = (train_tokenizer(settings, pairs(400)) for _ in range(2))
    assert first._models == second._models


def test_a_small_corpus_gets_as_many_pieces_as_it_has():
    few = [Pair(1, "abc abd", "xyz")]
    for kind in KINDS:
        tokenizer = train_tokenizer(TokenizerSettings(kind=kind, vocab_size=8000), few)
        assert tokenizer.vocab_size("source") < 400
        assert tokenizer.decode(tokenizer.encode("abc abd", "source"), "source") == "abc abd"


def test_impossible_sizes_and_empty_text_are_one_sentence():
    with pytest.raises(DataError, match=r"50 tokens is too small .* need \d+\. Raise tokenizer.vocab_size"):
        train_tokenizer(TokenizerSettings(vocab_size=50), pairs())
    with pytest.raises(DataError, match="every line is empty"):
        train_tokenizer(TokenizerSettings(), [Pair(1, " ", "")])


@pytest.mark.parametrize("joint", [True, False])
def test_it_survives_its_files_and_a_trip_to_another_process(tokenizers, tmp_path, joint):
    tokenizer = tokenizers["unigram", joint]
    tokenizer.write(tmp_path / "tokenizer")
    text = "The snail didn't cross the Brücke 日"
    for again in (Tokenizer.read(tmp_path / "tokenizer"), pickle.loads(pickle.dumps(tokenizer))):
        assert again.settings == tokenizer.settings
        for side in ("source", "target"):
            assert again.encode(text, side) == tokenizer.encode(text, side)
    assert len(list((tmp_path / "tokenizer").iterdir())) == (2 if joint else 3)


@max_examples(100)
@given(st.data())
def test_a_damaged_model_is_an_error_of_ours_or_harmless(tokenizers, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("broken") / "tokenizer"
    tokenizers["bpe", True].write(folder)
    content = bytearray((folder / "joint.model").read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] = data.draw(st.integers(0, 255))
    else:
        del content[place:]
    (folder / "joint.model").write_bytes(content)
    try:
        Tokenizer.read(folder).encode("The dog", "source")
    except GlassformerError:
        pass
    finally:
        shutil.rmtree(folder)


def test_a_missing_file_is_one_sentence(tokenizers, tmp_path):
    tokenizers["bpe", False].write(tmp_path / "tokenizer")
    (tmp_path / "tokenizer/target.model").unlink()
    with pytest.raises(GlassformerError, match=r"target\.model cannot be read"):
        Tokenizer.read(tmp_path / "tokenizer")
