"""Subword segmenters and imported tokenizers: text is split as for the original model; bad files give our errors."""

import io
import itertools
import json
import pickle
import random
import shutil
from collections import Counter
from itertools import islice

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from glassformer.builtin import street
from glassformer.data import IdsOnly, ImportedTokenizer, ImportedTokenizerSettings, read_tokenizer
from glassformer.data.imported_tokenizer import SOURCE, TARGET, pieces_by_id
from glassformer.data.subword_segmentation import (
    ByteLevelSegmenter,
    SentencePieceSegmenter,
    SubwordNMTSegmenter,
    WordSegmenter,
    apply_merges,
)
from glassformer.errors import DataError, GlassformerError, InputError
from tests.examples import max_examples

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
words = st.lists(st.text("abcdeéß日@<>/w.", min_size=1, max_size=9), max_size=6).map(" ".join)


def lines(count=200):
    made = islice(street.sentences("train", count), count)
    return [text for pair in made for text in (pair.source, pair.target)]


def learn(text, count, separate_end):
    """BPE codes as in Sennrich et al. (2016): merge the most frequent adjacent pair, repeatedly."""
    found = [(*word, "</w>") if separate_end else (*word[:-1], word[-1] + "</w>") for word in text.split()]
    codes = []
    for _ in range(count):
        pairs = Counter(pair for word in found for pair in itertools.pairwise(word))
        if not pairs:
            break
        codes.append(max(pairs, key=lambda pair: (pairs[pair], pair)))
        found = [in_order(word, codes[-1:]) for word in found]
    return codes


def in_order(symbols, codes):
    """Apply one code after the other, each to all occurrences from the left."""
    for code in codes:
        merged = []
        for symbol in symbols:
            if merged and (merged[-1], symbol) == code and not getattr(merged[-1], "new", False):
                merged[-1] = Merged(merged[-1] + symbol)
            else:
                merged.append(symbol)
        symbols = tuple(str(symbol) for symbol in merged)
    return symbols


class Merged(str):
    """A piece that has just been merged: the same code does not merge it again."""

    new = True


def written(codes, version):
    return "\n".join([f"#version: {version}", *map(" ".join, codes), ""]).encode()


TEXT = " ".join(lines(60)).replace(".", " .").lower()
CODES = {"0.1": learn(TEXT, 120, separate_end=True), "0.2": learn(TEXT, 120, separate_end=False)}
versions = pytest.mark.parametrize("version", CODES)


@versions
def test_merges_are_applied_in_the_order_in_which_they_were_learned(version):
    segmenter = SubwordNMTSegmenter(written(CODES[version], version))
    for word in {*TEXT.split(), "straßenbahn", "übersehen", "aaaaaa", "e", "ee", "eeee", "xyz"}:
        symbols = (*word, "</w>") if version == "0.1" else (*word[:-1], word[-1] + "</w>")
        pieces = in_order(symbols, CODES[version])
        assert "".join(pieces) == word + "</w>"
        whole = "@@ ".join(pieces).removesuffix("</w>").removesuffix("@@ ")
        assert segmenter.segment(word) == whole.split(" ")


@versions
@given(anything | words)
def test_subword_nmt_loses_no_word(version, text):
    segmenter = SubwordNMTSegmenter(written(CODES[version], version))
    if "@@" not in text:
        assert segmenter.join(segmenter.segment(text)) == " ".join(text.split())


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "ab", "ba", "b</w>", "</w>"])] * 2)), words)
def test_no_list_of_codes_loses_a_word(codes, text):
    """Including codes that no training gives, with duplicate pairs and pieces that no merge produces."""
    for version in CODES:
        segmenter = SubwordNMTSegmenter(written(codes, version))
        if "@@" not in text:
            assert segmenter.join(segmenter.segment(text)) == " ".join(text.split())


EXAMPLES = [
    # 0.2: the end-of-word marker is part of the last character, so "w" within a word and at its end differ.
    ("0.2", ["l o", "lo w</w>", "e r</w>"], "low lower er", "low lo@@ w@@ er er"),
    # The pair that was learned first is merged first, even if another pair precedes it in the word.
    ("0.2", ["b c", "a b"], "abcd", "a@@ bc@@ d"),
    ("0.2", ["a b", "b c"], "abcd", "ab@@ c@@ d"),
    # Overlapping pairs are merged from the left; the last character is a different symbol from those before it.
    ("0.2", ["a a"], "aaaa", "aa@@ a@@ a"),
    ("0.2", ["a a", "aa a"], "aaaaaa", "aa@@ aaa@@ a"),
    ("0.2", ["a a</w>"], "aaa a", "a@@ aa a"),
    # 0.1: the end-of-word marker is a symbol of its own, which may remain unmerged; then it is not written.
    ("0.1", ["l o", "lo w", "e r", "er </w>"], "low lower error", "low low@@ er er@@ r@@ o@@ r"),
    ("0.1", ["w </w>"], "low w", "l@@ o@@ w w"),
    # The first of duplicate pairs counts; the pairs after the duplicate are still applied.
    ("0.2", ["a b", "b c", "a b", "ab c", "abc d</w>"], "abcd", "abcd"),
    # A literal end-of-word marker in the text is text.
    ("0.2", ["< /", "w >", "</ w>"], "a</w>b", "a@@ </w>@@ b"),
]


@pytest.mark.parametrize(("version", "codes", "text", "pieces"), EXAMPLES)
def test_worked_examples_of_subword_nmt(version, codes, text, pieces):
    segmenter = SubwordNMTSegmenter("\n".join([f"#version: {version}", *codes]).encode())
    assert " ".join(segmenter.segment(text)) == pieces
    assert segmenter.join(segmenter.segment(text)) == text
    if version == "0.1":  # as in old files, without a version line
        assert " ".join(SubwordNMTSegmenter("\r\n".join(codes).encode()).segment(text)) == pieces


@pytest.mark.parametrize(
    ("codes", "complaint"),
    [(b"#version: 0.3\na b", "0.1 and 0.2"), (b"#version: x", "0.1 and 0.2"), (b"a", "two pieces"), (b"\xff", "UTF-8")],
)
def test_codes_that_cannot_be_read_are_one_sentence(codes, complaint):
    with pytest.raises(DataError, match=complaint):
        SubwordNMTSegmenter(codes)


def test_a_pair_that_was_learned_late_counts_also_where_others_stand_twice():
    """Regression: a rank above the number of distinct pairs lost against pairs that are not in the codes."""
    ranks = {("a", "b"): 0, ("c", "d"): 7}
    assert apply_merges(("x", "c", "d"), ranks) == ("x", "cd")
    assert apply_merges((), ranks) == ()


@given(anything)
def test_byte_level_loses_nothing(text):
    for merges in (b"", "#version: 0.2\nĠ t\nĠt h\nĠth e\nÃ ¤\n".encode()):
        segmenter = ByteLevelSegmenter(merges)
        assert segmenter.join(segmenter.segment(text)) == text


def test_worked_examples_of_byte_level():
    segmenter = ByteLevelSegmenter("#version: 0.2\nĠ t\nĠt h\nĠth e\nÃ ¤".encode())
    assert segmenter.segment("the the") == ["t", "h", "e", "Ġthe"]
    assert segmenter.segment("ä's  1a") == ["Ã¤", "'", "s", "Ġ", "Ġ", "1", "a"]
    assert segmenter.segment("\x1c") == ["Ĝ"], "not whitespace in Unicode, but whitespace in Python"
    assert segmenter.join(["Ã", "<mask>"]) == "\ufffd<mask>", "half a character, and a tag unchanged"
    with pytest.raises(DataError, match="is not two pieces"):
        ByteLevelSegmenter(b"a b c")


@given(anything)
def test_words_are_separated_by_whitespace(text):
    assert WordSegmenter().join(WordSegmenter().segment(text)) == " ".join(text.split())


def spm(text, **more):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        vocab_size=300,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **more,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def models():
    return {"source": spm(lines()[::2]), "target": spm(lines()[1::2])}


def test_an_empty_model_is_one_sentence():
    with pytest.raises(DataError, match="SentencePiece model is empty"):
        SentencePieceSegmenter(b"")


def test_a_piece_that_is_no_text_is_one_sentence(models):
    damaged = SentencePieceSegmenter(models["source"].replace("▁the".encode(), b"\xff" * 6, 1))
    with pytest.raises(DataError, match="a piece that is not UTF-8"):
        damaged.pieces()


def test_pieces_of_another_model_are_read_as_its_own(models):
    """Regression: with a joint vocabulary, the ▁ in pieces of the other side stayed in the text."""
    source, target = (SentencePieceSegmenter(model) for model in models.values())
    for english, german in zip(lines(60)[::2], lines(60)[1::2], strict=True):
        assert target.join(source.segment(english)) == source.join(source.segment(english)) == english
        assert target.join([*target.segment(german), *source.segment(english)]) == f"{german} {english}"


def tokenizers(models):
    """One tokenizer per kind of segmenter, joint and separate, with and without languages."""
    own = {side: SentencePieceSegmenter(model).pieces() for side, model in models.items()}
    separate = {"source": ["<pad>", *own["source"]], "target": [*own["target"], ">>de<<", "<pad>"]}
    plain = {"after_source": ["</s>"], "after_target": ["</s>"], "hidden": ["<pad>"]}
    languages = {"languages": {"en": "__en__", "de": "__de__", "fr": "__fr__"}, "source_language": "en"}
    multilingual = ImportedTokenizerSettings(
        cut="sentencepiece",
        joint=True,
        before_source=[SOURCE],
        before_target=[TARGET],
        **{**plain, **languages, "target_language": "de", "tags": ["<x>", "<xy>", "<xy"]},
    )
    more = [*own["source"], "__en__", "__de__", "__fr__", "<x>", "<xy>", "<xy"]
    pieces = dict.fromkeys(piece for word in TEXT.split() for piece in SubwordNMTSegmenter(codes()).segment(word))
    merges = "Ġ t\nĠt h\nĠth e\nÃ ¤\n".encode()
    every = [
        "<unk>",
        "</s>",
        "<pad>",
        *ByteLevelSegmenter(b"").segment("".join(map(chr, range(0x180)))),
        "Ġt",
        "Ġth",
        "Ġthe",
    ]
    return {
        "separate": ImportedTokenizer(
            ImportedTokenizerSettings(cut="sentencepiece", joint=False, **plain), separate, models
        ),
        "joint": ImportedTokenizer(
            ImportedTokenizerSettings(cut="sentencepiece", joint=True, **plain, opening=[">>", "<<"]),
            {side: [*dict.fromkeys([*own["source"], *own["target"], ">>de<<"])] for side in models},
            models,
        ),
        "multilingual": ImportedTokenizer.joint(
            multilingual, pieces_by_id(numbers(more), len(more) + 3), models["source"]
        ),
        "bytes": ImportedTokenizer.joint(
            ImportedTokenizerSettings(cut="byte-level", joint=True, **plain), [*dict.fromkeys(every)], merges
        ),
        "codes": ImportedTokenizer.joint(
            ImportedTokenizerSettings(cut="subword-nmt", joint=True, **plain),
            ["<unk>", "</s>", "<pad>", *pieces],
            codes(),
        ),
        "words": ImportedTokenizer.joint(
            ImportedTokenizerSettings(cut="words", joint=True, **plain),
            ["<unk>", "</s>", *dict.fromkeys(TEXT.split())],
            b"",
        ),
    }


def codes():
    return written(CODES["0.2"], "0.2")


def numbers(pieces):
    return {piece: number for number, piece in enumerate(pieces)}


@pytest.fixture(scope="module")
def made(models):
    return tokenizers(models)


KINDS = ["separate", "joint", "multilingual", "bytes", "codes", "words"]
every = pytest.mark.parametrize("kind", KINDS)
TEXTS = [*lines(20), "", " ", ">>de<< The dog", "a <xy> b<x>", "日本 😀", "x" * 500, "the the ä"]


@every
def test_it_survives_its_files_and_a_trip_to_another_process(made, tmp_path, kind):
    tokenizer = made[kind]
    tokenizer.write(tmp_path / "tokenizer")
    for again in (read_tokenizer(tmp_path / "tokenizer"), pickle.loads(pickle.dumps(tokenizer))):
        assert isinstance(again, ImportedTokenizer)
        assert again.settings == tokenizer.settings
        assert again.files() == tokenizer.files()
        for text, side in itertools.product(TEXTS, ("source", "target")):
            ids = tokenizer.encode(text, side)
            assert again.encode(text, side) == ids
            assert again.decode(ids, side) == tokenizer.decode(ids, side)


@every
@given(anything, st.sampled_from(["source", "target"]))
def test_ids_are_of_the_vocabulary_and_end_with_the_end(made, kind, text, side):
    ids = made[kind].encode(text, side)
    assert all(0 <= number < made[kind].vocab_size(side) for number in ids)
    assert made[kind].pieces(ids, side)[-1] == "</s>"
    made[kind].decode(ids, side)


@every
def test_any_ids_can_be_read(made, kind):
    pick = random.Random(kind)
    for side in ("source", "target"):
        size = made[kind].vocab_size(side)
        made[kind].decode(range(size), side)
        for _ in range(300):
            ids = [pick.randrange(size) for _ in range(pick.randint(0, 9))]
            text = made[kind].decode(iter(ids), side)
            assert not any(word in text for word in ("</s>", "<pad>", "__de__", "<no. "))
            assert "\u2581" not in text


def test_hidden_pieces_are_hidden_by_the_ids_of_their_side(made):
    tokenizer = made["separate"]
    source, target = (tokenizer._ids[side]["<pad>"] for side in ("source", "target"))
    assert source != target
    for side, pad in (("source", source), ("target", target)):
        text = "The dog" if side == "source" else "Der Hund"
        ids = tokenizer.encode(text, side)
        assert tokenizer.decode([pad, *ids, pad], side) == text


def test_ids_without_a_piece_get_a_placeholder_and_decode_to_nothing(made):
    tokenizer = made["multilingual"]
    size = tokenizer.vocab_size("target")
    assert tokenizer.pieces([size - 1], "target") == [f"<no. {size - 1}>"]
    assert tokenizer.decode([size - 1, size - 2]) == ""
    with pytest.raises(DataError, match="'a' has the id 2, out of range for the model's 2 tokens"):
        pieces_by_id({"a": 2}, 2)


def test_tags_are_one_piece_the_longest_first(made):
    tokenizer = made["multilingual"]
    shown = tokenizer.pieces(tokenizer.encode("a <xy> b<x><xyz", "source"), "source")
    assert [piece for piece in shown if piece.startswith("<x")] == ["<xy>", "<x>", "<xy"]


def test_an_opening_tag_is_one_piece_known_or_not(made):
    tokenizer = made["joint"]
    shown = [tokenizer.pieces(tokenizer.encode(text, "source"), "source") for text in (">>de<< The", ">>xx<< The")]
    assert shown[0][0] == ">>de<<"
    assert shown[1][0] == "<unk>"
    assert shown[0][1:] == shown[1][1:] == tokenizer.pieces(tokenizer.encode("The", "source"), "source")
    later = tokenizer.pieces(tokenizer.encode("The >>de<<", "source"), "source")
    assert ">>de<<" not in later


def test_languages_stand_around_the_text(made):
    tokenizer = made["multilingual"]
    assert tokenizer.pieces(tokenizer.encode("", "source"), "source") == ["__en__", "</s>"]
    other = tokenizer.with_languages("fr", None)
    assert other.pieces(other.encode("", "source"), "source") == ["__fr__", "</s>"]
    assert other.pieces(other.encode("", "target"), "target") == ["__de__", "</s>"]
    assert tokenizer.with_languages(None, None).settings == tokenizer.settings


def test_a_language_that_is_not_known_is_one_sentence(made):
    with pytest.raises(InputError, match="does not support the language 'xx': it supports en, de, fr"):
        made["multilingual"].with_languages("xx", "de")
    with pytest.raises(InputError, match="trained for one language pair"):
        made["joint"].with_languages(None, "de")
    unsaid = ImportedTokenizer(
        made["multilingual"].settings.model_copy(update={"target_language": None}),
        made["multilingual"]._vocabularies,
        made["multilingual"]._models,
    )
    with pytest.raises(InputError, match="choose two of them"):
        unsaid.encode("a", "target")
    with pytest.raises(DataError, match="the language 'xx' has no language token"):
        ImportedTokenizer(
            unsaid.settings.model_copy(update={"source_language": "xx"}), unsaid._vocabularies, unsaid._models
        )


def test_a_language_that_cannot_be_chosen_is_one_sentence(made):
    fixed = ImportedTokenizer(
        made["multilingual"].settings.model_copy(update={"before_target": []}),
        made["multilingual"]._vocabularies,
        made["multilingual"]._models,
    )
    assert fixed.with_languages("fr", "de").settings.source_language == "fr"
    with pytest.raises(InputError, match="translates into de only, not into 'fr'"):
        fixed.with_languages("en", "fr")


def test_tokens_are_found_by_what_they_show(made):
    for kind, word in (("joint", "▁the"), ("bytes", "Ġthe"), ("words", "the")):
        tokenizer = made[kind]
        found = tokenizer.ids_of(["the", word])
        assert word in tokenizer.pieces(found, "target")
        assert tokenizer.ids_of([word])[0] in found
        assert tokenizer.ids_of([]) == ()
    with pytest.raises(InputError, match="'☃' is not a token of this model"):
        made["joint"].ids_of(["☃"])


@every
def test_half_of_a_surrogate_pair_is_no_text(made, kind):
    with pytest.raises(InputError, match="an unpaired surrogate"):
        made[kind].encode("a\ud83d", "source")


def test_vocabularies_that_cannot_be(made):
    tokenizer = made["words"]
    for vocabulary, complaint in ((["a", "</s>"], "has no '<unk>'"), (["<unk>", "\ud800"], "an unpaired surrogate")):
        with pytest.raises(DataError, match=complaint):
            ImportedTokenizer.joint(tokenizer.settings, vocabulary, b"")


def test_a_model_without_a_tokenizer_says_so():
    for ask in (lambda: IdsOnly().encode("a", "source"), lambda: IdsOnly().decode([1]), lambda: IdsOnly().ids_of([])):
        with pytest.raises(InputError, match="takes token ids, not text"):
            ask()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "tokenizer.json") for kind in KINDS),
        *(("multilingual", "joint.json"), ("multilingual", "source.model"), ("separate", "target.json")),
        *(("bytes", "source.model"), ("codes", "source.model"), ("bytes", "joint.json")),
    ],
)
@max_examples(60)
@given(data=st.data())
def test_a_damaged_file_is_an_error_of_ours_or_harmless(made, tmp_path_factory, kind, name, data):
    folder = tmp_path_factory.mktemp("broken") / "tokenizer"
    made[kind].write(folder)
    content = bytearray((folder / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["change", "cut", "remove", "insert"]))
    if how == "change":
        content[place] = data.draw(st.integers(0, 255))
    elif how == "cut":
        del content[place:]
    elif how == "remove":
        del content[place : place + data.draw(st.integers(1, 20))]
    else:
        content[place:place] = data.draw(st.binary(min_size=1, max_size=8))
    (folder / name).write_bytes(content)
    try:
        tokenizer = ImportedTokenizer.read(folder)
        for side in ("source", "target"):
            tokenizer.decode(tokenizer.encode("The <xy> dog's  Straße", side), side)
            tokenizer.decode(range(tokenizer.vocab_size(side)), side)
        tokenizer.files()
    except GlassformerError:
        pass
    finally:
        shutil.rmtree(folder.parent)


@pytest.mark.parametrize("name", ["tokenizer.json", "joint.json", "source.model", "target.model"])
def test_a_missing_file_is_one_sentence(made, tmp_path, name):
    made["joint"].write(tmp_path / "tokenizer")
    (tmp_path / "tokenizer" / name).unlink()
    with pytest.raises(GlassformerError, match=f"{name} cannot be read"):
        ImportedTokenizer.read(tmp_path / "tokenizer")


@pytest.mark.parametrize("content", ["{}", "[1]", '"a"', "[" * 100_000, '["\\ud800"]', "[]", "null"])
def test_a_file_that_is_no_vocabulary_is_one_sentence(made, tmp_path, content):
    made["joint"].write(tmp_path / "tokenizer")
    (tmp_path / "tokenizer/joint.json").write_text(content)
    with pytest.raises(GlassformerError, match="vocabulary"):
        ImportedTokenizer.read(tmp_path / "tokenizer")


@pytest.mark.parametrize(
    "change",
    [
        {"cut": "letters"},
        {"languages": {"en": 1}},
        {"source_language": "xx"},
        {"unknown": "<none>"},
        {"opening": ["a", "b", "c"]},
        {"more": 1},
    ],
)
def test_settings_that_make_no_sense_are_one_sentence(made, tmp_path, change):
    made["multilingual"].write(tmp_path / "tokenizer")
    path = tmp_path / "tokenizer/tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(GlassformerError):
        ImportedTokenizer.read(tmp_path / "tokenizer")
