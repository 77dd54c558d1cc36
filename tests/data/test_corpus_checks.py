"""Corpus validation: planted problems are found on their lines, and the clean copy has no findings."""

import gzip
import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import corpus, diagnose
from glassformer.data.corpus_scan import DROPPED, KINDS, REPAIRED
from glassformer.errors import DirectoryError
from tests.examples import max_examples
from tests.processes import ROOT, glassformer

ENGLISH = ["the old woman", "a small dog", "the tall man", "my youngest brother", "that green bird"]
ENGLISH_DOES = ["walks through the park", "is sitting on the bench", "throws the ball to them", "looks at the water"]
GERMAN = ["die alte Frau", "ein kleiner Hund", "der große Mann", "mein jüngster Bruder", "jener grüne Vogel"]
GERMAN_DOES = ["geht durch den Park", "sitzt auf der Bank", "wirft ihnen den Ball zu", "schaut auf das Wasser"]


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Distinct pairs without findings."""
    pick = random.Random(seed)
    pairs = []
    for n in range(count):
        i, j = pick.randrange(len(ENGLISH)), pick.randrange(len(ENGLISH_DOES))
        pairs.append((f"{ENGLISH[i]} {ENGLISH_DOES[j]} {n}", f"{GERMAN[i]} {GERMAN_DOES[j]} {n}"))
    return pairs


PLANT = {
    "empty": lambda s, t: ("", "  "),
    "one-sided": lambda s, t: (s, ""),
    "identical": lambda s, t: (s, s),
    "length-ratio": lambda s, t: (s, " ".join([t] * 8)),
    "overlong": lambda s, t: (" ".join([s] * 40), " ".join([t] * 40)),
    "control": lambda s, t: (s[:5] + "\x00" + s[5:], t),
    "line-break": lambda s, t: (s, t[:5] + "\u2028" + t[5:]),
    "swapped": lambda s, t: (t, s),
}


def written(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"source": s, "target": t}) for s, t in pairs]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "pairs.jsonl"


@max_examples(30)
@given(st.lists(st.sampled_from(sorted(PLANT)), max_size=6), st.integers(0, 999), st.data())
def test_what_was_planted_is_found_where_it_was_planted(tmp_path_factory, planted, seed, data):
    pairs = sentences(200, seed)
    places = data.draw(st.permutations(range(200)))[: len(planted)]
    expected = {}
    for place, kind in zip(places, planted, strict=True):
        pairs[place] = PLANT[kind](*pairs[place])
        expected.setdefault(kind, []).append(place + 1)
    diagnosis = diagnose(corpus(written(tmp_path_factory.mktemp("data"), pairs)))
    # Two empty pairs count as empty, not as duplicates; every other pair has exactly the finding that was planted.
    assert {kind: sorted(lines)[:5] for kind, lines in expected.items()} == {
        kind: finding.lines for kind, finding in diagnosis.findings.items()
    }
    kept = sum(kind in ("identical", "control", "line-break") for kind in planted)
    assert diagnosis.kept == 200 - len(planted) + kept


def test_duplicates_and_leaks(tmp_path):
    pairs = sentences(100, 1)
    pairs[50], pairs[70] = pairs[3], pairs[3]
    test = [("THE  OLD woman walks through the park 9999", "x"), (pairs[10][0].upper(), "whatever")]
    diagnosis = diagnose(corpus(written(tmp_path / "a", pairs)), test=corpus(written(tmp_path / "b", test)))
    assert diagnosis.findings["duplicate"].lines == [51, 71]
    assert diagnosis.findings["leaked"].lines == [11]
    assert diagnosis.kept == 97


def test_the_clean_copy_is_clean_and_in_order(tmp_path):
    pairs = sentences(300, 2)
    for place, kind in enumerate(PLANT, start=20):
        pairs[place] = PLANT[kind](*pairs[place])
    pairs[100] = pairs[99]
    pairs[101] = ("\x01", "\x02")  # empty after repair
    diagnosis = diagnose(corpus(written(tmp_path, pairs)), fix=tmp_path / "clean")
    again = corpus(tmp_path / "clean/pairs.jsonl")
    assert set(diagnose(again).findings) <= {"identical"}
    kept = [pair.source for pair in again]
    assert len(kept) == diagnosis.kept
    numbers = [int(line.split()[-1]) for line in kept]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("names", [("a.en", "a.de"), ("a.en.gz", "a.de.gz"), ("a.tsv", None), ("a.csv", None)])
def test_the_clean_copy_has_the_format_of_the_original(tmp_path, names):
    pairs = [*sentences(30, 3), ("", "")]
    for name, column in zip(names, (0, 1), strict=True):
        if name is None:
            continue
        separator = "," if name.endswith(".csv") else "\t"
        lines = [f"{s}{separator}{t}" for s, t in pairs] if names[1] is None else [pair[column] for pair in pairs]
        content = ("\n".join(lines) + "\n").encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    diagnose(corpus(*[tmp_path / name if name else None for name in names]), fix=tmp_path / "out")
    clean = corpus(*[tmp_path / "out" / name.removesuffix(".gz") if name else None for name in names])
    assert [pair[1:] for pair in clean] == pairs[:-1]


def test_a_copy_never_replaces_what_is_there(tmp_path):
    path = written(tmp_path, sentences(10, 1))
    seen = []
    with pytest.raises(DirectoryError, match="already exists"):
        diagnose(corpus(path), fix=tmp_path, watch=lambda pairs, what: seen.append(what) or pairs)
    assert seen == [], "refused before the work, not after it"


def test_every_kind_has_its_meaning():
    assert set(PLANT) | {"duplicate", "leaked"} == set(KINDS)


def test_the_docs_list_every_kind():
    page = (ROOT / "docs/data.md").read_text()
    [table] = re.findall(r"^\| finding \|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = dict(re.findall(r"^\| ([a-z-]+) \| .* \| (\w+)[^|]*\|$", table, re.MULTILINE))
    assert rows == {
        kind: "replaced" if kind in REPAIRED else "dropped" if kind in DROPPED else "kept" for kind in KINDS
    }


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return glassformer("doctor", *arguments)


def test_the_command(tmp_path):
    path = written(tmp_path, [*sentences(50, 1), ("lonely", "")])
    done = doctor("--source", str(path), "--fix", str(tmp_path / "clean"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "one-sided      1  1.96 %  51" in done.stdout
    assert "50 of 51 pairs" in " ".join(done.stdout.split())
    assert corpus(tmp_path / "clean/pairs.jsonl").check() == 50
    found = json.loads(doctor("--source", str(path), "--json").stdout)
    assert found["findings"]["one-sided"]["lines"] == [51]


def test_the_command_on_clean_data_and_on_none(tmp_path):
    assert "No problems found." in doctor("--source", str(written(tmp_path, sentences(50, 1)))).stdout
    done = doctor("--source", "nowhere.tsv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "glassformer: nowhere.tsv cannot be read: No such file or directory.\n"
