"""`glassformer explain`: text that fits the terminal, JSON, and errors as one sentence."""

import io
import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest
import torch

from glassformer.cli import main
from glassformer.model import save_model
from tests.processes import ROOT
from tests.small_translator import model, saved

SENTENCE = "The animal didn't cross the street because it was too tired."
PRONOUN = ["--pronoun", "it", "--candidates", "animal,street", "--swap", "tired=wide", "--tries", "40"]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def explain(*arguments: str, columns: int = 80) -> Done:
    return run_command("explain", *arguments, columns=columns)


def run_command(*arguments: str, columns: int = 80) -> Done:
    """Run a command in this process, because there are many runs."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "argv", ["glassformer", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    return Done(int(left.value.code or 0), out.getvalue(), err.getvalue())


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(("arguments", "query"), [([], "[8 ▁weil]"), (["--token", "it"], "[10 ▁it]")])
def test_a_walk_fits_the_terminal(columns, arguments, query):
    done = explain("street", SENTENCE, *arguments, columns=columns)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= min(columns, 100)
    assert query in done.stdout
    assert done.stdout.count("recomputed: differs by") == 9
    gaps = [float(line.split()[-1]) for line in done.stdout.splitlines() if "recomputed: differs by" in line]
    assert max(gaps) < 1e-5
    assert "-0.000" not in done.stdout


def test_it_opens_where_the_pronoun_looks_back_at_its_noun():
    found = json.loads(explain("street", SENTENCE, "--json").stdout)
    assert (found["writes"], max(found["keys"], key=lambda key: key["weight"])["token"]) == ("es", "▁animal")
    assert "▁es attends most to ▁animal: 99.9 %." in explain("street", SENTENCE).stdout.splitlines()[3]


@pytest.mark.parametrize("arguments", [[], ["--token", "it"], PRONOUN])
def test_the_commands_to_try_next_run(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = explain("street", SENTENCE, *arguments).stdout.partition("Try next")[2].replace("\\\n", "")
    commands = [shlex.split(line)[1:] for line in shown.splitlines() if line.strip().startswith("glassformer")]
    assert len(commands) == (2 if arguments is PRONOUN else 5)
    for name, model_name, sentence, *options in commands:
        assert (model_name, sentence) == ("street", "...")
        page = ["--html", "page.html"] if name == "explore" else []
        done = run_command(name, model_name, SENTENCE, *options, *page)
        assert done.returncode == 0, done.stderr


def test_a_walk_as_json_has_every_number():
    done = explain("street", SENTENCE, "--token", "es", "--at", "decoder.layers.1.cross_attention", "--json")
    found = json.loads(done.stdout)
    assert (found["token"], found["writes"]) == ("weil", "es")
    assert len(found["keys"]) == len(found["source"]["tokens"])
    assert sum(key["weight"] for key in found["keys"]) == pytest.approx(1, abs=1e-5)
    steps = {step["step"]: step for step in found["steps"]}
    assert len(steps["output"]["vectors"][0]["numbers"]) == 128
    product = torch.tensor(steps["query"]["vectors"][0]["numbers"]) @ torch.tensor(found["keys"][1]["k"])
    assert float(product) == pytest.approx(found["keys"][1]["product"], abs=1e-3)


def test_a_given_target_is_looked_at():
    done = explain("street", SENTENCE, "--target", "Das Tier schlief.", "--token", "schlief", "--json")
    found = json.loads(done.stdout)
    assert found["target"]["text"] == "Das Tier schlief."
    assert found["at"].endswith("cross_attention")


def test_pronoun_resolution_as_text_and_json():
    done = explain("street", SENTENCE, *PRONOUN)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    text = " ".join(done.stdout.split())
    assert text.startswith("This model resolves 'it' to 'animal'")  # the verdict first
    assert "This model resolves 'it' to 'animal'" in text
    assert "This model resolves 'it' to 'street'" in text
    found = json.loads(explain("street", SENTENCE, *PRONOUN, "--json").stdout)
    assert [reading["verdict"] for reading in found["readings"]] == ["animal", "street"]
    assert [reading["pronoun"] for reading in found["readings"]] == ["es", "sie"]


def test_the_matrices_are_exchanged():
    done = explain("street", "--cross-attention", "--count", "3")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = json.loads(explain("street", "--cross-attention", "--count", "3", "--json").stdout)["rows"]
    own, *others = rows
    assert own["same"] == 3
    assert all(row["log_probability"] < own["log_probability"] - 0.3 for row in others)


def test_the_matrices_with_sentences_and_files(tmp_path):
    (tmp_path / "a").write_text("It slept.\nThe dog.\n")
    (tmp_path / "b").write_text("Das Tier.\nDer Hund.\n")
    directory = str(saved(tmp_path / "model", encoder_layers=1, decoder_layers=2))
    by_hand = explain(directory, "It slept.", "The dog.", "--cross-attention")
    assert by_hand.returncode == 0, by_hand.stderr
    assert "decoder layers 0, 1 use encoder layers 0, 0" in by_hand.stdout
    assert explain(directory, "--cross-attention", "--source", str(tmp_path / "a")).stdout == by_hand.stdout
    given = explain(directory, "--cross-attention", "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b"))
    assert "given translations" in given.stdout


def test_a_decoder_of_one_layer_is_labelled_truthfully(tmp_path):
    directory = str(saved(tmp_path / "model", decoder_layers=1))
    done = explain(directory, "It slept.", "--cross-attention")
    assert done.stdout.count("(= own)") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([SENTENCE, "--token", "xyz"], "The source has no token 'xyz'"),
        ([SENTENCE, "--token", "it#2"], "The source has no token 'it#2'"),
        ([SENTENCE, "--head", "9"], "Head 9 of encoder.layers.0.self_attention is out of range (0 to 3)"),
        ([SENTENCE, "--at", "nowhere"], "The model has no attention 'nowhere'; it has encoder.layers.0"),
        ([SENTENCE, "--pronoun", "dog"], "There is no word 'dog'"),
        ([SENTENCE, "--pronoun", "it", "--swap", "tired"], "--swap tired should be OLD=NEW"),
        ([SENTENCE, "--pronoun", "it", "--head", "1"], "--head has no effect with --pronoun"),
        ([SENTENCE, "--pronoun", "it", "--cross-attention"], "choose one of them"),
        (
            [SENTENCE, "--swap", "tired=wide"],
            "--swap has no effect here: leave it out, or add --pronoun or --cross-attention",
        ),
        ([], "Expected one sentence to explain, in quotes; there are 0"),
        ([" "], "The sentence is empty"),
        (["The cat slept because it was tired.", "--pronoun", "it"], "At least two candidates are needed for 'it'"),
    ],
)
def test_what_a_user_can_cause_is_one_sentence(arguments, message):
    done = explain("street", *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("glassformer: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_models_without_words_or_self_attention_say_so(tmp_path):
    save_model(model(), tmp_path / "ids")
    done = explain(str(tmp_path / "ids"), SENTENCE)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    directory = str(saved(tmp_path / "ssru", decoder_ssru=True))
    done = explain(directory, "It slept.", "--at", "decoder.layers.0.self_attention")
    assert "This model's decoder has no self-attention" in done.stderr
    assert explain(directory, "It slept.", "--at", "decoder.layers.0.cross_attention").returncode == 0
    done = explain(directory, "--cross-attention")
    assert "No sentences were given: put them after the model, or use --source FILE." in done.stderr


def test_help_is_instant():
    code = (
        "import sys\nfrom glassformer.cli import app\n"
        "try:\n    app(['explain', '--help'])\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--pronoun" in done.stdout


# ---- docs --------------------------------------------------------------------------------------------------------

PRONOUN_PAGE = (ROOT / "docs/pronoun-resolution.md").read_text()
PAGE = (ROOT / "docs/decoder-keys-and-values.md").read_text()


@pytest.mark.parametrize(
    ("page", "begin", "arguments"),
    [
        (PAGE, "40 sentences", ["--cross-attention"]),
        (PRONOUN_PAGE, "This model", [SENTENCE, "--pronoun", "it", "--swap", "tired=wide"]),
    ],
)
def test_the_pages_tables_are_what_the_command_prints(page, begin, arguments):
    """Words exactly, numbers approximately: another processor may round the last digit differently."""
    [shown] = re.findall(rf"^```\n({begin}.*?)^```", page, re.MULTILINE | re.DOTALL)
    ours, theirs = shown.split(), explain("street", *arguments).stdout.split()
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if re.fullmatch(r"-?[\d.]+(e-\d+)?,?", one):
            first, second = float(one.rstrip(",")), float(other.rstrip(","))
            assert abs(first - second) <= (0.02 if abs(first) < 20 else 1), (one, other)
        else:
            assert one == other


def test_the_pages_code_is_the_code():
    """Each quoted line occurs in the source code."""
    code = "".join(path.read_text() for path in (ROOT / "src/glassformer/model").glob("*.py"))
    quotes = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for quote in quotes for line in quote.splitlines()]
    assert len(lines) >= 6
    for line in lines:
        assert line in code, line
