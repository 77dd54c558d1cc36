"""Marian's binary shortlists: read as Marian does, and taken along by `convert`."""

import json
from contextlib import suppress

import pytest
import sentencepiece

from glassformer.decoding import Request
from glassformer.engine import EngineOptions
from glassformer.errors import DirectoryError, InputError
from glassformer.interop.marian.marian_shortlist import read_marian_shortlist
from glassformer.loading import load, open_model
from tests.examples import seeded_random
from tests.interop import marian_writer as marian
from tests.interop.mutations import MUTATIONS
from tests.interop.test_marian_file import mutated
from tests.interop.test_marian_vocabulary import SENTENCES, spm
from tests.processes import glassformer

LISTS = [[], [7, 3], [3], [], [9, 10, 4]]


def read(path, content, source=11, target=11, is_shared=True):
    path.write_bytes(content)
    return read_marian_shortlist(path, source, target, is_shared)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_sentence_has_the_frequent_tokens_those_of_its_tokens_and_the_end(is_shared, tmp_path):
    """As in Marian's BinaryShortlistGenerator::generate; a shared vocabulary adds the source's own tokens."""
    shortlist = read(tmp_path / "lex.bin", marian.shortlist_bytes(LISTS, 2), is_shared=is_shared)
    own = {1, 2, 6} if is_shared else set()
    assert set(shortlist.tokens(Request([1, 2, 2, 6]), 5).tolist()) == {0, 1, 5, 7, 3} | own
    assert set(shortlist.tokens(Request([4], (6,), ((8, 2),)), 5).tolist()) == {0, 1, 5, 9, 10, 4, 6, 8, 2}


@pytest.mark.parametrize(
    ("content", "sizes", "complaint"),
    [
        (b"", (11, 11), "is not a binary Marian shortlist"),
        (b"a b 0.5\n" * 9, (11, 11), "is not a binary Marian shortlist"),
        (marian.shortlist_bytes(LISTS, 2)[:-1], (11, 11), "it has 119 bytes instead of 120"),
        (marian.shortlist_bytes(LISTS, 2)[:-5] + b"\1" * 5, (11, 11), "its checksum is wrong"),
        (marian.shortlist_bytes(LISTS, 12), (11, 11), "at least 12 target tokens, and the model has 11 and 11"),
        (marian.shortlist_bytes(LISTS, 2), (4, 11), "lists for 5 source tokens"),
        (marian.shortlist_bytes(LISTS, 2), (11, 10), "another model, which has more target tokens"),
        (marian.shortlist_bytes([], 2), (11, 11), "lists for 0 source tokens"),
    ],
)
def test_what_is_damaged_or_does_not_fit_is_refused_with_a_reason(content, sizes, complaint, tmp_path):
    with pytest.raises(DirectoryError, match=complaint):
        read(tmp_path / "lex.bin", content, *sizes)


def test_damaged_files_give_our_errors_and_nothing_else(tmp_path):
    good, chance = marian.shortlist_bytes(LISTS, 2), seeded_random("marian shortlist")
    for _ in range(MUTATIONS // 4):
        changed = mutated(good, chance)
        accepted = False
        with suppress(DirectoryError):
            accepted = bool(read(tmp_path / "lex.bin", changed))
        assert not accepted or changed == good or changed[8:16] != good[8:16]


@pytest.fixture
def student(tmp_path):
    """A small student with a vocabulary and a shortlist that allows half of the tokens."""
    directory = tmp_path / "student"
    directory.mkdir()
    (directory / "vocab.spm").write_bytes(spm(SENTENCES["en"], 60))
    size = sentencepiece.SentencePieceProcessor(model_proto=(directory / "vocab.spm").read_bytes()).vocab_size()
    options = marian.options(dim_vocabs=[size, size])
    marian.write_bin(directory / "model.bin", marian.tensors(options), options, "intgemm8")
    (directory / "lex.bin").write_bytes(marian.shortlist_bytes([[*range(i % 2, size, 4)] for i in range(size)], 4))
    (directory / "config.yml").write_text(
        "models:\n  - model.bin\nvocabs:\n  - vocab.spm\n  - vocab.spm\nshortlist:\n    - lex.bin\n    - false\n"
    )
    return directory


def test_convert_takes_the_shortlist_along_and_measures_it(student, tmp_path):
    (tmp_path / "sample").write_text("".join(f"{line}\n" for line in SENTENCES["en"]))
    sample = ("--sample", tmp_path / "sample")
    done = glassformer("convert", student, tmp_path / "one", *sample, "--sample-reference", tmp_path / "sample")
    assert "tokens per sentence" in done.stdout, done.stderr
    ours = open_model(tmp_path / "one").read_shortlist()
    assert ours.measurement.sentences == len(SENTENCES["en"])
    assert ours.measurement.has_references
    theirs = open_model(student).read_shortlist()
    request = Request([5, 9, 0])
    assert ours.tokens(request, 0).tolist() == theirs.tokens(request, 0).tolist()
    restricted = [load(where, engine=EngineOptions(shortlist=True)) for where in (student, tmp_path / "one")]
    assert restricted[0].uses_shortlist
    assert restricted[0].translate(SENTENCES["en"]) == restricted[1].translate(SENTENCES["en"])
    done = glassformer("convert", student, tmp_path / "two", *sample)
    assert not open_model(tmp_path / "two").read_shortlist().measurement.has_references, done.stderr
    glassformer("convert", student, tmp_path / "three")
    assert open_model(tmp_path / "three").read_shortlist().measurement is None
    assert not load(tmp_path / "three").uses_shortlist
    done = glassformer("describe", tmp_path / "one", "--json")
    assert json.loads(done.stdout)["shortlist"]["measurement"]["sentences"] == len(SENTENCES["en"])
    done = glassformer("convert", student, tmp_path / "four", "--no-shortlist")
    assert open_model(tmp_path / "four").read_shortlist() is None, done.stderr


def test_a_damaged_shortlist_is_an_error_only_where_it_is_read(student, tmp_path):
    (student / "lex.bin").write_bytes(b"damaged")
    assert not load(student).uses_shortlist
    with pytest.raises(DirectoryError, match="is not a binary Marian shortlist"):
        load(student, engine=EngineOptions(shortlist=True))
    assert "lex.bin is not a binary Marian shortlist" in glassformer("convert", student, tmp_path / "one").stderr
    (student / "lex.bin").unlink()
    with pytest.raises(InputError, match="The model has no shortlist"):
        load(student, engine=EngineOptions(shortlist=True))
