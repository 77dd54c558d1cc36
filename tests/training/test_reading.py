"""How often a run reads its files: text at most three times before the first update, the model to fine-tune once."""

import gzip
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.corpus import unwatched
from glassformer.training import RunSettings
from glassformer.training.run_corpora import log_findings, scan_corpora
from glassformer.training.run_settings import DataSettings
from tests.examples import cases
from tests.processes import ROOT, glassformer, run_fresh
from tests.training.runs import options, trained, write_corpus

HOOK = """
import os, sys

log = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        os.write(log, (arguments[0] + "\\n").encode())

sys.addaudithook(hook)
"""
"""Run at the start of every Python process, so also in the helper processes of a run."""

TRAIN = """
import json, os, sys
from collections import Counter
from glassformer.data import Tokenizer
from glassformer.training import ProgressListener, train_run

class Marking(ProgressListener):
    def updated(self, progress):
        with open(os.environ["OPENED"], "a") as file:
            file.write("an update\\n")

encoded = Counter()
encode = Tokenizer.encode

def counted(self, text, side):
    encoded[text] += 1
    return encode(self, text, side)

Tokenizer.encode = counted
train_run(json.loads(sys.argv[1]), Marking())
print(json.dumps(encoded))
"""


class Observed:
    """A run in a new interpreter, with the files that all its processes opened and the texts that rank 0 encoded."""

    def __init__(self, here: Path, run_options: dict[str, Any]) -> None:
        (here / "hook").mkdir(exist_ok=True)
        (here / "hook/sitecustomize.py").write_text(HOOK)
        log = here / "opened"
        log.unlink(missing_ok=True)
        paths = os.pathsep.join([str(here / "hook"), *sys.path[1:], str(ROOT)])
        printed = run_fresh(TRAIN, json.dumps(run_options), env=os.environ | {"PYTHONPATH": paths, "OPENED": str(log)})
        self.encoded = json.loads(printed)
        lines = log.read_text().splitlines()
        self.opened = Counter(lines)
        self.opened_before_updates = Counter(lines[: lines.index("an update")])


def as_one_file(data: dict[str, str], prefix: str, name: str) -> str:
    """The two files of a set as one .tsv or .jsonl file."""
    paths = [Path(data[f"{prefix}{side}"]) for side in ("source", "target")]
    pairs = list(zip(*(path.read_text().splitlines() for path in paths), strict=True))
    jsonl = [json.dumps({"source": source, "target": target}) for source, target in pairs]
    lines = jsonl if ".jsonl" in name else [f"{source}\t{target}" for source, target in pairs]
    content = "".join(f"{line}\n" for line in lines).encode()
    path = paths[0].with_name(f"{prefix}{name}")
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "own_dev", "ranks"),
    cases(("", False, 2), ("all.tsv", True, 1), more=[("all.jsonl.gz", False, 1), ("", True, 2)]),
)
def test_text_is_opened_at_most_three_times_before_the_first_update(tmp_path, name, own_dev, ranks):
    run_options = options(tmp_path, updates=4, ranks=ranks)
    run_options["tokenizer"] |= {"joint": False, "vocab_size": 500}
    run_options["validation"] |= {"every": 2}
    data = run_options["data"]
    prefixes = ["", "dev_"] if own_dev else [""]
    if name:
        run_options["data"] = {f"{prefix}source": as_one_file(data, prefix, name) for prefix in prefixes}
    elif not own_dev:
        run_options["data"] = {side: data[side] for side in ("source", "target")}
    test = write_corpus(tmp_path / "text", 5, "test")
    run_options["data"] |= test
    run = Observed(tmp_path, run_options)
    for key, path in run_options["data"].items():
        assert run.opened_before_updates[path] == (2 if key.startswith(("dev_", "test_")) else 3)
        assert run.opened[path] == run.opened_before_updates[path] + (ranks if key in test else 0)
    dev = Counter(json.loads(line)["source"] for line in (tmp_path / "run/dev.jsonl").read_text().splitlines())
    assert dev
    assert {source: run.encoded[source] for source in dev} == dev, "encoded once, not at each validation"


def test_a_resumed_run_reads_its_text_once_and_its_dev_set_twice(tmp_path):
    run_options = options(tmp_path, updates=4)
    trained(run_options)
    run_options["training"]["updates"] = 6
    run = Observed(tmp_path, run_options)
    opened = {key: run.opened[path] for key, path in run_options["data"].items()}
    assert opened == {"source": 1, "target": 1, "dev_source": 2, "dev_target": 2}


def test_fine_tuning_reads_its_model_once(tmp_path):
    run_options = options(tmp_path, updates=3)
    report = trained(run_options)
    model = tmp_path / "run" / report["model"]
    tuned = run_options | {"out": str(tmp_path / "tuned"), "finetune": str(model)}
    del tuned["model"], tuned["tokenizer"]
    run = Observed(tmp_path, tuned)
    # Two opens are one loading: the checksum is verified, then the header is read; tensors are mapped.
    assert 1 <= run.opened[str(model / "model.safetensors")] <= 3
    assert run.opened[str(model / "config.json")] == 3  # whose format it is, the checksum, the options


def test_train_reports_what_the_scan_finds_and_nothing_about_clean_text(tmp_path):
    run_options = options(tmp_path)
    data = {side: Path(run_options["data"][side]) for side in ("source", "target")}
    flags = ["--dev-source", run_options["data"]["dev_source"], "--dev-target", run_options["data"]["dev_target"]]
    flags += [part for name, path in data.items() for part in (f"--{name}", path)]
    flags += ["--preset", "tiny", "--set", "training.updates=1", "--set", "tokenizer.vocab_size=400"]
    clean = glassformer("train", *flags, "--out", tmp_path / "clean")
    assert clean.returncode == 0
    assert "doctor" not in clean.stderr
    for path in data.values():
        first, *lines = path.read_text().splitlines()
        path.write_text("\n".join([first, *lines, first, "", "a\x00b"]) + "\n")
    found = glassformer("train", *flags, "--out", tmp_path / "found")
    assert found.returncode == 0
    lines = found.stderr.splitlines()
    assert lines[:5] == [
        "empty: 1 of 303 pairs (line 302): both sides are empty.",
        "duplicate: 1 of 303 pairs (line 301): repeats an earlier pair.",
        "identical: 1 of 303 pairs (line 303): source and target are the same text.",
        "control: 1 of 303 pairs (line 303): control characters: NUL, escapes, a stray byte order mark.",
        f"`glassformer doctor --source {data['source']} --target {data['target']}` shows these lines and checks "
        "further; --fix DIR writes a clean copy.",
    ]
    assert "doctor" not in "".join(lines[5:])


def test_sentences_of_the_test_set_are_reported_with_the_command_that_shows_them(tmp_path):
    data = write_corpus(tmp_path, 40) | write_corpus(tmp_path, 5, "test")
    test = Path(data["test_source"])
    test.write_text(test.read_text() + Path(data["source"]).read_text().splitlines()[6].upper() + "\n")
    Path(data["test_target"]).write_text("x\n" * 6)
    settings = RunSettings(out="run", data=DataSettings(**data))
    messages: list[str] = []
    log_findings(scan_corpora(settings, unwatched).train, settings.data, messages.append)
    assert messages[0] == "leaked: 1 of 40 pairs (line 7): the source is also in the test set."
    assert f"--test-source {data['test_source']} --test-target {data['test_target']}`" in messages[1]
    assert len(messages) == 2


def test_shifted_lines_are_reported_before_training_on_them(tmp_path):
    data = write_corpus(tmp_path, 400)
    first, *lines = Path(data["target"]).read_text().splitlines(keepends=True)
    Path(data["target"]).write_text("".join([*lines, first]))
    settings = RunSettings(out="run", data=DataSettings(**data))
    messages: list[str] = []
    log_findings(scan_corpora(settings, unwatched).train, settings.data, messages.append)
    assert re.match(
        r"shifted: \d+ of 400 pairs do not belong together\. From about line [1-9] on, line n of ", messages[0]
    )
    assert "clean copy" not in messages[-1]
