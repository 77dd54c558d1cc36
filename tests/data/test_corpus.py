"""Corpus readers: text is read as it was written, and errors name the file, the line and the reason."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import Pair, corpus
from glassformer.data.corpus import MAX_LINE_BYTES, count_lines
from glassformer.errors import DataError, GlassformerError
from tests.examples import max_examples

# Any text of one line, including characters that other programs treat as line ends, and text that looks like markup.
text = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", " ", "a\u2028b", "a\x85b", "a\rb", "a\vb\fc", "\ufeff", "\x00", "[/red]", "\x1b[31m", "👩‍👩‍👧", "\u202eabc"]
)


def plain(side: str) -> str:
    """What is read back: one trailing \\r belongs to the line end."""
    return side.removesuffix("\r")


def write(path: Path, lines: list[str], ending: str = "\n", last: bool = True) -> Path:
    content = (ending.join(lines) + (ending if last else "")).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@max_examples(150)
@given(st.lists(st.tuples(text, text), min_size=1, max_size=8), st.sampled_from(["", ".gz"]))
def test_what_was_written_is_read_in_every_format(tmp_path_factory, sides, packed):
    """NTREX#3, eole#174, subword-nmt PR#92: a file of n lines has n lines, whatever they contain."""
    folder = tmp_path_factory.mktemp("corpus")
    sources, targets = ([side[i].removeprefix("\ufeff") for side in sides] for i in (0, 1))
    two = corpus(write(folder / f"a.en{packed}", sources), write(folder / f"a.de{packed}", targets))
    expected = [Pair(n, plain(s), plain(t)) for n, (s, t) in enumerate(zip(sources, targets, strict=True), start=1)]
    assert list(two) == expected
    assert two.check() == len(sides)

    lines = [json.dumps({"source": s, "target": t, "id": 7}) for s, t in zip(sources, targets, strict=True)]
    jsonl = corpus(write(folder / f"a.jsonl{packed}", lines))
    assert [pair[1:] for pair in jsonl] == list(zip(sources, targets, strict=True))

    tabless = [(s.replace("\t", " "), t.replace("\t", " ")) for s, t in zip(sources, targets, strict=True)]
    tsv = corpus(write(folder / f"a.tsv{packed}", [f"{s}\t{t}" for s, t in tabless]))
    assert [pair[1:] for pair in tsv] == [(s, plain(t)) for s, t in tabless]
    assert tsv.check() == jsonl.check() == len(sides)

    delimiter = ",;\t"[len(sides) % 3]
    rows = [delimiter.join('"' + side.replace('"', '""') + '"' for side in pair) for pair in [("en", "de"), *tabless]]
    csv = corpus(write(folder / f"a.csv{packed}", rows))
    assert list(csv) == [Pair(n, *pair) for n, pair in enumerate(tabless, start=2)]
    assert csv.check() == len(sides)
    [copied] = csv.format_pair(Pair(1, *tabless[0]))
    assert [pair[1:] for pair in corpus(write(folder / "copy.csv", [copied]))] == [tabless[0]]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_of_two_systems_and_a_missing_last_one(tmp_path, ending, last):
    file = write(tmp_path / "a.tsv", ["\ufeffein\tone", "zwei\ttwo"], ending, last)
    assert [pair[1:] for pair in corpus(file)] == [("ein", "one"), ("zwei", "two")]
    assert corpus(file).check() == 2


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ('"Hello, world","Hallo, ""Welt"""\r\nYes,Ja\r\n', [(1, "Hello, world", 'Hallo, "Welt"'), (2, "Yes", "Ja")]),
        ("Hello, world;Hallo, Welt\nYes, I do;Ja\n", [(1, "Hello, world", "Hallo, Welt"), (2, "Yes, I do", "Ja")]),
        ("sep=;\na;b\n1,5;1,5\n", [(2, "a", "b"), (3, "1,5", "1,5")]),
        ("\ufeffSource;Target\nYes;Ja\n", [(2, "Yes", "Ja")]),
        ("target,source\nJa,Yes\n", [(2, "Yes", "Ja")]),
        ("pt-BR,en\nSim,Yes\n", [(2, "Sim", "Yes")]),
        ("Hello,Hallo\n\nYes,Ja\n\n", [(1, "Hello", "Hallo"), (3, "Yes", "Ja")]),
        ('"two\r\nlines","zwei\nZeilen"\nYes,Ja', [(1, "two\nlines", "zwei\nZeilen"), (2, "Yes", "Ja")]),
        ('6" nails,Nägel\n,\n', [(1, '6" nails', "Nägel"), (2, "", "")]),
        ("one\tein, zwei\ntwo\tzwei\n", [(1, "one", "ein, zwei"), (2, "two", "zwei")]),
    ],
)
def test_csv_as_spreadsheets_write_it(tmp_path, content, pairs):
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert list(corpus(tmp_path / "a.csv")) == [Pair(*pair) for pair in pairs]
    assert corpus(tmp_path / "a.csv").check() == len(pairs)


def broken(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def everything(path: Path) -> list[Pair]:
    pairs = corpus(path)
    pairs.check()
    return list(pairs)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.tsv", b"one\tein\ntwo\n", "a.tsv, line 2: expected one tab between source and target, found 0"),
        ("a.tsv", b"one\tein\tuno\n", "a.tsv, line 1: expected one tab between source and target, found 2"),
        ("a.tsv", b"one\tein\nt\xffo\tzwei\n", "a.tsv, line 2: byte 2 (0xff) is not UTF-8"),
        ("a.tsv", b"one\tein\n\xed\xa0\x80\tzwei\n", "line 2: byte 1 (0xed) is not UTF-8"),
        ("a.tsv", "one\tein".encode("utf-16"), "a.tsv is UTF-16: convert it first"),
        ("a.tsv", b"", "a.tsv is empty"),
        ("a.tsv", b"x" * (MAX_LINE_BYTES + 1), "line 1 is longer than 1,048,576 bytes"),
        ("a.jsonl", b'{"source": "one"}\n', 'a.jsonl, line 1: expected {"source": '),
        ("a.jsonl", b'{"source": "one", "target": 1}\n', 'a.jsonl, line 1: expected {"source": '),
        ("a.jsonl", b'["one", "ein"]\n', 'a.jsonl, line 1: expected {"source": '),
        ("a.jsonl", b'{"source": "one", "target": "ein"}\n\n', "a.jsonl, line 2: not valid JSON"),
        ("a.jsonl", b'{"source": "\\ud800", "target": "ein"}\n', "a.jsonl, line 1: unpaired surrogate"),
        ("a.jsonl", b"[" * 100_000, "line 1: not valid JSON"),
        ("a.tsv.gz", gzip.compress(b"one\tein\n" * 9, mtime=0)[:-9], "a.tsv.gz is damaged or truncated"),
        ("a.tsv.gz", b"one\tein\n", "a.tsv.gz is damaged or truncated"),
        (
            "a.tsv.gz",
            gzip.compress(b"one\tein\n" * 999, mtime=0)[:40] + b"\xff" * 9,
            "a.tsv.gz is damaged or truncated",
        ),
        ("a.csv", b"one,ein\ntwo\n", "a.csv, row 2: expected two columns, source and target, found 1"),
        ("a.csv", b"one,ein,uno\n", "a.csv, row 1: expected two columns, source and target, found 3"),
        (
            "a.csv",
            b'one,ein\n"two\nor\nthree,zwei\n',
            "a.csv, row 2 (to line 4) is not valid CSV: unexpected end of data",
        ),
        ("a.csv", b'one,"ein"s\n', "a.csv, row 1 (to line 1) is not valid CSV"),
        ("a.csv", b'one,"' + b"x\n" * 70_000, "a.csv, row 1 (to line "),
        ("a.csv", b"one,ein\nt\xffo,zwei\n", "a.csv, line 2: byte 2 (0xff) is not UTF-8"),
        ("a.csv", b"source,target\n", "a.csv is empty"),
        ("a.csv", b"", "a.csv is empty"),
        ("a.txt", b"one\n", "ends neither in .tsv, .csv nor .jsonl"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,  # bytes make no readable test ids
)
def test_a_file_that_cannot_be_used_says_where_and_why(tmp_path, name, content, says):
    path = broken(tmp_path, name, content)
    with pytest.raises(DataError) as error:
        everything(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_files_of_different_length_are_refused_before_anything_is_read(tmp_path):
    pair = corpus(write(tmp_path / "a.en", ["x"] * 3), write(tmp_path / "a.de", ["y"] * 2))
    with pytest.raises(DataError, match=r"a\.en has 3 lines and .*a\.de has 2"):
        pair.check()


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    for path in (tmp_path / "nowhere.tsv", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            count_lines(path)


@max_examples(300)
@given(st.binary(max_size=60), st.sampled_from(["a.tsv", "a.csv", "a.jsonl", "a.tsv.gz", "a.jsonl.gz"]))
def test_any_bytes_give_pairs_or_our_error(tmp_path_factory, content, name):
    try:
        data = corpus(broken(tmp_path_factory.mktemp("bytes"), name, content))
        count = data.check()
        pairs = list(data)
    except GlassformerError:
        return
    assert len(pairs) == count
