"""Token store: holds the corpus as ids, is reused while its inputs are unchanged, and rebuilt when any changed."""

import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from glassformer.builtin import street
from glassformer.data import Pair, TokenizerSettings, corpus, open_store, scan, train_tokenizer
from glassformer.errors import DataError, DirectoryError


def sample(count: int) -> list[Pair]:
    made = islice(street.sentences("train", count), count)
    return [Pair(n, s.source, s.target) for n, s in enumerate(made, start=1)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TokenizerSettings(vocab_size=500), sample(500))


@pytest.fixture
def data(tmp_path) -> Path:
    lines = [f"{pair.source}\t{pair.target}" for pair in sample(2500)]
    lines[7] = "lonely\t"
    lines[9] = "word " * 300 + "\tWort"
    (tmp_path / "data.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "data.tsv"


def state(directory: Path) -> dict[str, tuple[int, int]]:
    """Inode and modification time of each file: a rewritten file differs."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_it_holds_the_corpus_in_order(data, tokenizer, tmp_path):
    store = open_store(scan(corpus(data)), tokenizer, tmp_path / "store")
    usable = [pair for pair in corpus(data) if pair.line not in (8, 10)]
    assert len(store) == len(usable) == 2498
    assert (store.settings.dropped_empty, store.settings.dropped_long) == (1, 1)
    for i in (0, 1, 6, 7, 8, 997, 998, 1000, 2497):
        source, target = store[i]
        assert source.tolist() == tokenizer.encode(usable[i].source, "source")
        assert target.tolist() == tokenizer.encode(usable[i].target, "target")
    expected = [len(tokenizer.encode(pair.target, "target")) for pair in usable]
    assert store.lengths("target").tolist() == expected


def test_it_is_reused_while_nothing_changed(data, tokenizer, tmp_path):
    open_store(scan(corpus(data)), tokenizer, tmp_path / "store")
    before = state(tmp_path / "store")
    shutil.copy(data, tmp_path / "again.tsv")
    shutil.move(tmp_path / "again.tsv", data)  # a new file with the old contents
    open_store(scan(corpus(data)), tokenizer, tmp_path / "store")
    assert state(tmp_path / "store") == before


@pytest.mark.parametrize("change", ["a character", "the tokenizer", "the limit", "a damage", "a missing file"])
def test_it_is_rebuilt_when_anything_changed(data, tokenizer, tmp_path, change):
    open_store(scan(corpus(data)), tokenizer, tmp_path / "store")
    before = state(tmp_path / "store")
    limit = 256
    if change == "a character":
        content = data.read_bytes()
        data.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    elif change == "the tokenizer":
        tokenizer = train_tokenizer(TokenizerSettings(vocab_size=450), sample(500))
    elif change == "the limit":
        limit = 200
    elif change == "a damage":
        with (tmp_path / "store/source.ids").open("r+b") as file:
            file.write(b"\xff")
    else:
        (tmp_path / "store/target.ends").unlink()
    store = open_store(scan(corpus(data)), tokenizer, tmp_path / "store", max_tokens=limit)
    assert state(tmp_path / "store") != before
    first = next(iter(corpus(data)))
    assert store[0][0].tolist() == tokenizer.encode(first.source, "source")


def test_large_vocabularies_take_wider_integers(data, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(type(tokenizer), "vocab_size", lambda self, side: 2**16 + 1)
    wide = open_store(scan(corpus(data)), tokenizer, tmp_path / "wide")
    monkeypatch.undo()
    narrow = open_store(scan(corpus(data)), tokenizer, tmp_path / "narrow")
    assert wide.settings.wide
    assert not narrow.settings.wide
    assert all(np.array_equal(wide[i][1], narrow[i][1]) for i in range(0, 2498, 100))


def test_no_usable_pairs_and_a_directory_that_is_not_a_store(tokenizer, tmp_path):
    (tmp_path / "empty.tsv").write_text("a\t\n\tb\n")
    with pytest.raises(DataError, match="is usable: 2 pairs have an empty side, and 0 are longer"):
        open_store(scan(corpus(tmp_path / "empty.tsv")), tokenizer, tmp_path / "store")
    assert not (tmp_path / "store").exists()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter1.txt").write_text("precious")
    (tmp_path / "thesis/store.json").write_text("{}")  # looking like a store is not enough to be deleted
    (tmp_path / "good.tsv").write_text("a\tb\n")
    with pytest.raises(DirectoryError, match="is not a token store"):
        open_store(scan(corpus(tmp_path / "good.tsv")), tokenizer, tmp_path / "thesis")
    assert (tmp_path / "thesis/chapter1.txt").read_text() == "precious"
