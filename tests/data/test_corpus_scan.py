"""The scan: one pass that knows what the other readers and the doctor know, in little memory."""

import gzip
import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import Pair, corpus, diagnose, scan
from glassformer.data.corpus_scan import source_keys
from glassformer.data.dev_split import CorpusSample, read_samples, split_off_dev
from glassformer.errors import DataError
from tests.examples import max_examples

TEXT = st.text("ab é\t\x00\u2028", max_size=4)
TEXTS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12)


def jsonl(path: Path, texts: list[tuple[str, str]]) -> Path:
    lines = "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in texts).encode()
    path.write_bytes(gzip.compress(lines[:20]) + gzip.compress(lines[20:]) if path.suffix == ".gz" else lines)
    return path


@max_examples(100)
@given(TEXTS, TEXTS, st.booleans())
def test_the_scan_knows_what_the_other_readers_and_the_doctor_know(tmp_path_factory, texts, test_texts, gzipped):
    here = tmp_path_factory.mktemp("scan")
    data = corpus(jsonl(here / ("a.jsonl.gz" if gzipped else "a.jsonl"), texts))
    test = corpus(jsonl(here / "test.jsonl", test_texts))
    scanned = scan(data, source_keys(test))
    assert list(scanned) == list(data)
    assert scanned.pairs == data.check() == len(texts)
    assert scanned.usable == sum(pair.has_text for pair in data)
    assert scanned.digests == tuple(hashlib.sha256(path.read_bytes()).digest() for path in data.files)
    diagnosis = diagnose(data, test)
    by_comparison = {"length-ratio", "swapped"}
    assert scanned.findings.items() <= diagnosis.findings.items()
    assert diagnosis.findings.keys() - scanned.findings.keys() <= by_comparison
    if not by_comparison & diagnosis.findings.keys():
        assert diagnosis.kept == len(texts) - scanned.dropped.sum()


@max_examples(100)
@given(st.lists(st.sampled_from([f"sentence {n}" for n in range(60)] + [""]), min_size=1, max_size=200), st.data())
def test_parts_are_complementary_and_samples_of_them_take_one_pass(tmp_path_factory, sources, data):
    path = jsonl(tmp_path_factory.mktemp("parts") / "a.jsonl", [(source, "x") for source in sources])
    scanned = scan(corpus(path))
    one_in, every, limit = (data.draw(st.integers(least, 9)) for least in (2, 1, 0))
    dev = scanned.part(one_in)
    assert sorted([*dev, *dev.complement]) == list(scanned)
    assert not {pair.source for pair in dev} & {pair.source for pair in dev.complement}
    assert [part.usable for part in (dev, dev.complement)] == [
        sum(pair.has_text for pair in part) for part in (dev, dev.complement)
    ]
    samples = [CorpusSample(dev, every, limit, with_text=True), CorpusSample(dev.complement, every)]
    read_samples(samples)
    assert samples[0].pairs == [pair for pair in dev if pair.has_text][::every][:limit]
    assert samples[1].pairs == list(dev.complement)[::every]


def test_a_dev_set_is_split_off_unless_one_part_would_be_empty(tmp_path):
    distinct = scan(corpus(jsonl(tmp_path / "a.jsonl", [(f"s {n}", "t") for n in range(3000)])))
    assert split_off_dev(distinct, sentences=1000).selection == "one in 20"
    assert split_off_dev(distinct, sentences=50).selection == "one in 60"
    same = scan(corpus(jsonl(tmp_path / "b.jsonl", [("one sentence", "t")] * 50)))
    with pytest.raises(DataError, match="too few pairs have text on both sides to split off a dev set"):
        split_off_dev(same, sentences=1000)


@pytest.mark.parametrize(
    ("source", "target"), [(b"a\nb\nc\n", b"x\ny\n"), (b"a\n", b"x\n\xff\n"), (b"", b"x\n"), (b"a", b""), (b"", b"")]
)
def test_files_that_do_not_match_get_the_sentence_of_the_line_count(tmp_path, source, target):
    for name, content in (("a", source), ("b", target)):
        (tmp_path / name).write_bytes(content)
    data = corpus(tmp_path / "a", tmp_path / "b")
    with pytest.raises(DataError) as counted:
        data.check()
    with pytest.raises(DataError) as scanned:
        scan(data)
    assert str(scanned.value) == str(counted.value)


def test_memory_is_a_few_bytes_per_pair(tmp_path):
    path = tmp_path / "a.tsv"
    peaks = []
    for pairs in (1_000, 9_000):
        path.write_text("".join(f"{n} {'word ' * 40}\t{n} {'Wort ' * 40}\n" for n in range(pairs)))
        tracemalloc.start()
        try:
            scanned = scan(corpus(path))
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        peaks.append(peak)
        assert scanned.pairs == pairs
    assert path.stat().st_size > 400 * scanned.pairs
    assert held < 20 * scanned.pairs
    assert peaks[1] - peaks[0] < 60 * 8_000
    assert peaks[0] < 2_000_000, "a few megabytes, however long the corpus"


def test_line_numbers_are_those_of_the_file(tmp_path):
    scanned = scan(corpus(jsonl(tmp_path / "a.jsonl", [("a", "b"), ("", ""), ("a", "b"), ("a", "")])))
    assert {kind: finding.lines for kind, finding in scanned.findings.items()} == {
        "empty": [2], "one-sided": [4], "duplicate": [3],
    }  # fmt: skip
    assert list(scanned)[2] == Pair(3, "a", "b")
