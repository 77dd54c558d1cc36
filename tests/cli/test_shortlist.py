"""`glassformer shortlist` makes a shortlist, measures it and saves it; the other commands use it."""

import json
import shutil

import pytest

from glassformer.builtin import street
from glassformer.loading import load, open_model
from glassformer.model_location import find_model
from glassformer.server.translation_service import open_served_model
from tests.processes import glassformer
from tests.server.running import running

COUNT = 400


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    pairs = list(street.sentences("train", COUNT))
    (directory / "train.en").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (directory / "train.de").write_text("".join(f"{pair.target}\n" for pair in pairs))
    return ["--source", directory / "train.en", "--target", directory / "train.de"]


@pytest.fixture(scope="module")
def made(tmp_path_factory, corpus):
    """A model with a shortlist of nearly all tokens, which costs nothing."""
    directory = tmp_path_factory.mktemp("models") / "street"
    shutil.copytree(find_model("street"), directory)
    done = glassformer("shortlist", directory, *corpus, "--frequent", 900, "--best", 50)
    assert done.returncode == 0, done.stderr
    assert "It is used by default" in done.stdout
    return directory


def test_it_is_measured_on_held_out_pairs_and_used(made):
    measurement = open_model(made).read_shortlist().measurement
    assert measurement.sentences == COUNT // 10
    assert measurement.has_references
    assert load(made).uses_shortlist
    with running(open_served_model(made)) as server:
        assert json.loads(server.get("/api/model").body)["shortlist"] is True


def test_options_turn_it_off_and_on(made):
    text = "The dog was too tired."
    restricted, unrestricted = (glassformer("translate", made, f"--{no}shortlist", text).stdout for no in ("", "no-"))
    assert restricted == unrestricted != ""
    assert "The model has no shortlist" in glassformer("translate", "street", "--shortlist", text).stderr
    refused = glassformer("translate", made, "--shortlist", "--ensemble-with", made, text)
    assert "An ensemble cannot use a shortlist" in refused.stderr


def test_a_short_one_is_not_used_by_default_and_can_be_measured_again(made, corpus, tmp_path):
    shutil.copytree(made, tmp_path / "model")
    done = glassformer("shortlist", tmp_path / "model", *corpus, "--frequent", 5, "--best", 1)
    assert "It is used only with --shortlist" in done.stdout, done.stderr
    before = open_model(tmp_path / "model").read_shortlist()
    assert not load(tmp_path / "model").uses_shortlist
    assert glassformer("shortlist", tmp_path / "model", *corpus, "--measure").returncode == 0
    after = open_model(tmp_path / "model").read_shortlist()
    assert after.targets.tolist() == before.targets.tolist()
    assert after.measurement.sentences == COUNT


def test_what_cannot_be_done_is_one_sentence(corpus, tmp_path):
    assert "street is built in and cannot be changed" in glassformer("shortlist", "street", *corpus).stderr
    shutil.copytree(find_model("street"), tmp_path / "model")
    assert "has no shortlist" in glassformer("shortlist", tmp_path / "model", *corpus, "--measure").stderr
    (tmp_path / "one.tsv").write_text("The dog.\tDer Hund.\n")
    done = glassformer("shortlist", tmp_path / "model", "--source", tmp_path / "one.tsv")
    assert "give at least 20" in done.stderr
