"""Shifted lines: where the sides part is found, sound text is not accused, shifted text gets no clean copy."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.builtin import street
from glassformer.data import corpus, diagnose, line_shifts, scan
from glassformer.data.corpus import Corpus
from glassformer.errors import DataError
from tests.examples import max_examples
from tests.processes import glassformer

PAIRS = [(sentence.source, sentence.target) for sentence in street.sentences("train", 1200)]


def two_files(folder: Path, sources: list[str], targets: list[str]) -> Corpus:
    for name, lines in (("a.en", sources), ("a.de", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return corpus(folder / "a.en", folder / "a.de")


def sides(pairs: list[tuple[str, str]]) -> list[list[str]]:
    return [[pair[side] for pair in pairs] for side in (0, 1)]


def shifted(seed: int, inserted: bool, side: int, lines: int) -> tuple[list[list[str]], int, int]:
    """Two sides, in one of which lines were inserted or deleted: the sides, the line from 1, and the shift after it."""
    pick = random.Random(seed)
    pairs = pick.sample(PAIRS, 800)
    place = pick.randrange(60, 700)
    texts = sides(pairs)
    texts[side][place : place + (0 if inserted else lines)] = texts[side][:lines] if inserted else []
    return texts, place + 1, lines * (1 if inserted == (side == 1) else -1)


SHIFTED = st.tuples(st.integers(0, 9999), st.booleans(), st.integers(0, 1), st.integers(1, 12))


def is_named(line: int, found: line_shifts.Shift) -> bool:
    """Whether the lines named begin or end at this one, or among the source lines after it that have no target line."""
    return found.first - max(0, found.before - found.shift) <= line <= found.last


@max_examples(60)
@given(SHIFTED)
@example(case=(0, False, 1, 9))  # source lines 155 to 163 have no target line: the change was found at line 162
def test_lines_inserted_or_deleted_anywhere_on_either_side_are_found_there(tmp_path_factory, case):
    texts, line, shift = shifted(*case)
    length = min(map(len, texts))
    data = two_files(tmp_path_factory.mktemp("shifted"), *(side[:length] for side in texts))
    [found] = scan(data).shifts
    assert (found.before, found.shift) == (0, shift)
    assert found.first <= found.line <= found.last
    assert is_named(line, found)


@max_examples(20)
@given(SHIFTED)
def test_files_of_different_lengths_are_told_where_they_part(tmp_path_factory, case):
    texts, line, shift = shifted(*case)
    data = two_files(tmp_path_factory.mktemp("unequal"), *texts)
    with pytest.raises(DataError) as error:
        scan(data)
    message = str(error.value)
    assert "\n" not in message
    assert f"line n of a.en belongs to line n {'+' if shift > 0 else '-'} {abs(shift)} of a.de" in message
    assert ("a.de has" if shift > 0 else "a.en has") in message
    said = int(message.split("From about line ")[1].split(" ")[0].replace(",", ""))
    assert abs(said - line) <= abs(shift) + 5


@max_examples(12)
@given(st.integers(0, 9999), st.integers(0, 1), st.booleans())
def test_a_block_that_is_missing_inside_or_at_the_end_is_told_apart(tmp_path_factory, seed, side, inside):
    texts = sides(random.Random(seed).sample(PAIRS, 900))
    place = 450 if inside else 860
    del texts[side][place : place + 40]
    with pytest.raises(DataError) as error:
        scan(two_files(tmp_path_factory.mktemp("block"), *texts))
    end = f"{['a.de', 'a.en'][side]} has 40 lines too many at its end"
    assert ("From about line 4" in str(error.value)) == inside
    assert (end in str(error.value)) == (not inside)


ARRANGEMENTS = {
    "as it is": lambda pairs, pick: pairs,
    "sorted by source": lambda pairs, pick: sorted(pairs),
    "sorted by target": lambda pairs, pick: sorted(pairs, key=lambda pair: pair[1]),
    "sorted by length": lambda pairs, pick: sorted(pairs, key=lambda pair: len(pair[0])),
    "each twice": lambda pairs, pick: [pair for pair in pairs for _ in range(2)],
    "few distinct": lambda pairs, pick: pick.choices(pairs[:30], k=len(pairs)),
    "one pair": lambda pairs, pick: pairs[:1] * len(pairs),
    "blank targets": lambda pairs, pick: [(s, pick.choice([t, ""])) for s, t in pairs],
    "blank": lambda pairs, pick: [("", "")] * len(pairs),
    "a third is noise": lambda pairs, pick: [(s, pick.choice([t, t, pick.choice(pairs)[1]])) for s, t in pairs],
    "unrelated": lambda pairs, pick: [(s, pick.choice(pairs)[1]) for s, _ in pairs],
    "the same language": lambda pairs, pick: [(s, s.upper()) for s, _ in pairs],
    "swapped halfway": lambda pairs, pick: pairs[: len(pairs) // 2] + [(t, s) for s, t in pairs[len(pairs) // 2 :]],
    "no spaces": lambda pairs, pick: [(s.replace(" ", ""), "".join(chr(0x4E00 + ord(c)) for c in t)) for s, t in pairs],
    "spelled": lambda pairs, pick: [(" ".join(s[:12]), " ".join(t[:12])) for s, t in pairs],
    "very short": lambda pairs, pick: pairs[: pick.randrange(1, 40)],
}


@max_examples(60)
@given(st.sampled_from(sorted(ARRANGEMENTS)), st.integers(0, 9999))
@example("swapped halfway", 1)
@example("unrelated", 2)
def test_sound_text_is_never_accused(tmp_path_factory, arrangement, seed):
    pick = random.Random(seed)
    pairs = ARRANGEMENTS[arrangement](pick.sample(PAIRS, pick.randrange(100, 900)), pick)
    assert scan(two_files(tmp_path_factory.mktemp("sound"), *sides(pairs))).shifts == []


def test_a_shift_that_begins_at_the_first_line_and_one_that_ends(tmp_path):
    sources, targets = sides(PAIRS)
    [whole] = scan(two_files(tmp_path, sources[1:], targets[:-1])).shifts
    assert (whole.line, whole.shift) == (1, -1) or (whole.line <= 3 and whole.shift == 1)
    del targets[300], sources[900]
    begins, ends = scan(two_files(tmp_path, sources, targets)).shifts
    assert (begins.shift, ends.before, ends.shift) == (-1, -1, 0)
    assert is_named(301, begins)
    assert is_named(900, ends)
    assert line_shifts.shifted_pairs([begins, ends], 1199) == ends.line - begins.line


def test_a_long_corpus_is_sampled_and_the_place_is_exact_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(line_shifts, "ALL_UNTIL", 400)
    monkeypatch.setattr(line_shifts, "PERIOD", 320)
    sources, targets = sides(PAIRS)
    assert scan(two_files(tmp_path, sources, targets)).shifts == []
    del targets[850]  # between two windows
    [found] = scan(two_files(tmp_path, sources[:-1], targets)).shifts
    assert is_named(851, found)


def test_one_file_and_the_rows_of_a_spreadsheet(tmp_path):
    sources, targets = sides(PAIRS[:600])
    del targets[350]
    pairs = list(zip(sources, targets, strict=False))
    (tmp_path / "a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    (tmp_path / "a.csv").write_text("English,German\n" + "".join(f'"{s}","{t}"\n' for s, t in pairs))
    [tsv], [csv] = (scan(corpus(tmp_path / name)).shifts for name in ("a.tsv", "a.csv"))
    assert csv.line == tsv.line + 1, "the header is a row"
    assert "line n of the source belongs to line n - 1 of the target" in csv.describe(corpus(tmp_path / "a.csv"))


def test_no_clean_copy_of_shifted_text(tmp_path):
    sources, targets = sides(PAIRS[:500])
    del targets[250]
    data = two_files(tmp_path, sources[:-1], targets)
    with pytest.raises(DataError, match=r"so there is no clean copy\. From about line 25"):
        diagnose(data, fix=tmp_path / "clean")
    assert not (tmp_path / "clean").exists()
    assert diagnose(data).kept == 0


def test_the_doctor_says_where_to_look(tmp_path):
    sources, targets = sides(PAIRS[:500])
    del targets[250]
    two_files(tmp_path, sources[:-1], targets)
    files = ["--source", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    said = " ".join(glassformer("doctor", *files).stdout.split())
    [shift] = json.loads(glassformer("doctor", *files, "--json").stdout)["shifts"]
    assert f"From about line {shift['line']} on, line n of a.en belongs to line n - 1 of a.de." in said
    assert "a.en has a line too many there, or a.de lacks it" in said
    assert "clean copy" not in said
    assert "No problems found" not in said


def test_sizes_are_those_of_the_texts(tmp_path):
    sources, targets = sides(PAIRS[:50])
    sizes = scan(two_files(tmp_path, sources, targets)).sizes
    for size, texts in zip(sizes, (sources, targets), strict=True):
        assert size.words == len(" ".join(texts).split())
        assert size.characters == len("".join(texts))
        assert size.longest == max(map(len, texts))
