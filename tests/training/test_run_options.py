"""Options of a run: the list, the commented file, aliases, the dry run, timings, and results that are too short."""

import json
import re
import tomllib
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.cli.train import options_from, summary
from glassformer.data import Pair
from glassformer.errors import SettingsError
from glassformer.model import ModelConfig
from glassformer.training.option_aliases import NAMES, VALUES, canonical
from glassformer.training.run_options import FROM_THE_TOKENIZER, options_text, run_options, starting_file
from glassformer.training.run_report import length_ratio, length_warning
from glassformer.training.run_settings import RunSettings
from glassformer.training.timings import TIMINGS, Timings
from tests.processes import glassformer
from tests.training.runs import write_corpus

LINE = re.compile(r"^(?:# )?(\w+) = (.*)$")


def settings_of(text: str) -> RunSettings:
    return RunSettings(**canonical(tomllib.loads(text)))


def test_every_option_is_listed_with_its_meaning():
    listed = options_text(100)
    known = {name for section in ("", "data", "training", "validation") for name in _fields(section)}
    known |= set(ModelConfig.model_fields) - set(FROM_THE_TOKENIZER) | {"kind", "vocab_size", "preset"}
    for name in known - {"data", "tokenizer", "model", "training", "validation"}:
        assert re.search(rf"^  {name} +\S", listed, re.MULTILINE), name
    assert all(option.meaning for option in run_options())
    assert max(map(len, listed.splitlines())) <= 100


def _fields(section: str) -> set[str]:
    return set((RunSettings.model_fields[section].annotation if section else RunSettings).model_fields)


def test_the_commented_file_sets_nothing_but_what_is_needed_and_given():
    plain = settings_of(starting_file({}))
    assert plain == RunSettings(out="runs/mine", data={"source": "train.en", "target": "train.de"})
    given = {"out": "here", "seed": 7, "training": {"epochs": 3.0}, "model": {"preset": "small", "gated": True}}
    data = {"source": "a.en", "target": "a.de"}
    assert settings_of(starting_file(given | {"data": data})) == RunSettings(data=data, **given)
    assert settings_of(starting_file({"data": {"source": "pairs.tsv.gz"}})).data.target is None
    with pytest.raises(SettingsError, match=r"There is no option 'training\.updats'; did you mean 'training\.updates'"):
        starting_file({"training": {"updats": 3}})


def test_every_line_of_the_commented_file_can_be_used():
    """Each option without its # (a target with its source) gives settings with that value."""
    lines = starting_file({}).splitlines()
    section = ""
    for i, line in enumerate(lines):
        section = line[1:-1] if line.startswith("[") else section
        option = LINE.match(line)
        if option is None or option[1] == "finetune":
            continue
        needed = f"# {option[1].replace('_target', '_source')} = "
        used = [
            other.removeprefix("# ") if j == i or other.startswith(needed) else other for j, other in enumerate(lines)
        ]
        settings = settings_of("\n".join(used))
        holder = getattr(settings, section) if section else settings
        value = holder[option[1]] if section == "model" else getattr(holder, option[1])
        assert value == json.loads(option[2])


def test_aliases_are_what_they_stand_for():
    for section, names in NAMES.items():
        for alias, name in names.items():
            expected = {section: {name: 1}}
            assert canonical({section: {alias: 1}}) == canonical({alias: 1}) == expected == canonical(expected)
            with pytest.raises(SettingsError, match=f"{section}.{name} are the same option"):
                canonical({section: {alias: 1, name: 2}})
    for path, values in VALUES.items():
        section, name = path.split(".")
        for alias, value in values.items():
            assert canonical({section: {name: alias.upper()}}) == {section: {name: value}}


def test_the_command_line_overrides_how_long_a_file_trains(tmp_path):
    (tmp_path / "run.toml").write_text('out = "x"\n[data]\nsource = "a"\n[training]\nupdates = 5\n')
    table = options_from(tmp_path / "run.toml", {"training.epochs": 2.0}, [])
    assert table["training"] == {"epochs": 2.0}


SMALL = ["--set", "model.d_model=16", "--set", "model.n_heads=2", "--set", "model.d_ff=32"]
SMALL += ["--set", "tokenizer.vocab_size=400", "--set", "training.ranks=1"]


@pytest.fixture
def arguments(tmp_path):
    files = write_corpus(tmp_path, 60)
    return ["--source", files["source"], "--target", files["target"], "--out", str(tmp_path / "run"), *SMALL]


def test_a_dry_run_predicts_and_writes_nothing(arguments, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = glassformer("train", *arguments, "--updates", "7", "--lr", "0.01", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(tmp_path.rglob("*")) == before
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[:5])
    assert rows["updates"].startswith("7 of 4,096 tokens")
    assert rows["corpus"].split()[0] == str(60 - int(rows["corpus"].split()[3]))
    assert "parameters" in rows["model"]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").write_text("")
    refused = glassformer("train", *arguments, "--out", "taken", "--dry-run", cwd=tmp_path)
    assert "taken contains other files" in refused.stderr


def test_what_people_type_is_written_back_canonically(arguments, tmp_path):
    typed = ["--updates", "2", "--lr", "0.01", "--seed", "3", "--batch-tokens", "512", "--preset", "tiny"]
    typed += [
        "--set",
        "model.positions=rope",
        "--set",
        "prenorm=false",
        "--set",
        "warmup_steps=1",
        "--set",
        "training.log_every=1",
    ]
    done = glassformer("train", *arguments, *typed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = tomllib.loads((tmp_path / "run/run.toml").read_text())
    assert (written["seed"], written["model"]["positions"], written["model"]["norm_first"]) == (3, "rotary", False)
    training = written["training"]
    chosen = [training[name] for name in ("updates", "learning_rate", "batch_tokens", "warmup")]
    assert chosen == [2, 0.01, 512, 1]
    assert "rope" not in (tmp_path / "run/run.toml").read_text()
    assert max(len(line) for line in done.stderr.splitlines() if line.startswith("    ")) <= 96  # the samples
    lines = [json.loads(line) for line in (tmp_path / "run" / TIMINGS).read_text().splitlines()]
    assert [(line["update"], line["tokens"]) for line in lines[1:]] == [
        (line["update"], line["tokens"])
        for line in map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
        if "tokens" in line
    ]
    assert len(lines) == 3
    assert all(line["tokens_per_second"] > 0 for line in lines[1:])
    report = json.loads((tmp_path / "run/report.json").read_text())
    long = {"source": "word " * 100, "translation": ""}
    text = summary(report | {"length_ratio": 0.2, "translations": [long]}, tmp_path)
    assert "The translations are far too short" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("  ")) <= 96
    again = glassformer("train", *arguments, *typed, cwd=tmp_path)  # the same words find the finished run
    assert again.returncode == 0
    assert "is already finished" in again.stderr


def test_the_init_file_trains(arguments, tmp_path):
    done = glassformer("train", *arguments, "--epochs", "1", "--init", "run.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Written to run.toml" in done.stdout
    settings = settings_of((tmp_path / "run.toml").read_text())
    assert settings.training.epochs == 1
    refused = glassformer("train", "--init", "run.toml", cwd=tmp_path)
    assert "run.toml already exists" in refused.stderr
    assert glassformer("train", "run.toml", "--dry-run", cwd=tmp_path).returncode == 0


def test_timings_have_one_run_id_whatever_cut_the_file(tmp_path):
    Timings(tmp_path, 0, {"ranks": 1}).log(2, 100)
    with (tmp_path / TIMINGS).open("a") as file:
        file.write('{"run": "cut')  # by a kill
    resumed = Timings(tmp_path, 2, {"ranks": 2})
    resumed.log(4, 300)
    resumed.log(6, 300)
    whole, cut = (tmp_path / TIMINGS).read_text().splitlines(), '{"run": "cut'
    lines = [json.loads(line) for line in whole if line != cut]
    assert {line["run"] for line in lines} == {resumed.run}
    assert [line.get("event") for line in lines] == ["started", None, "resumed", None, None]
    assert [line["update"] for line in lines] == [0, 2, 2, 4, 6]
    assert len(whole) == len(lines) + 1
    (tmp_path / "other").mkdir()
    assert Timings(tmp_path / "other", 0, {}).run != resumed.run


@pytest.mark.parametrize(("ratio", "kind"), [(0.0, "short"), (0.3, "short"), (2.5, "long")])
def test_a_result_of_the_wrong_length_is_said_so(ratio, kind):
    assert f"far too {kind}" in length_warning({"length_ratio": ratio})
    assert length_warning({"length_ratio": 1.02}) is None
    assert length_warning({}) is None


@given(st.lists(st.text(min_size=1), min_size=1), st.integers(1, 5))
def test_the_length_ratio_is_that_of_most_translations(references, factor):
    pairs = [Pair(1, "", reference) for reference in references]

    def ratio(texts: list[str]) -> float:
        return length_ratio(SimpleNamespace(texts=texts, pairs=pairs))

    assert ratio(references) == 1
    assert ratio([reference * factor for reference in references]) == factor
    assert ratio([""] * len(references)) == 0
