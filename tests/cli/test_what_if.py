"""`glassformer what-if` and `glassformer trace`: the output agrees with the Python interface."""

import json

import pytest
from typer.testing import CliRunner

from glassformer import Trace, Translator, load
from glassformer.builtin import street
from glassformer.cli import app
from glassformer.errors import GlassformerError
from glassformer.inspection import inspect
from glassformer.inspection.interventions.changes import RemoveEdge, RemoveHead

SENTENCE = "The animal didn't cross the street because it was too tired."
CROSS = "decoder.layers.1.cross_attention"


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, GlassformerError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load("street")


@pytest.fixture
def files(tmp_path):
    pairs = list(street.sentences("test", 12))
    (tmp_path / "test.en").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (tmp_path / "test.de").write_text("".join(f"{pair.target}\n" for pair in pairs))
    return tmp_path / "test.en", tmp_path / "test.de"


def test_a_word_replaced_and_a_head_removed(translator):
    inspector = inspect(translator)
    output = run("what-if", "street", SENTENCE, "--replace", "tired=wide", "--remove-head", f"{CROSS}:2", "--json")
    found = json.loads(output)
    before = inspector.trace(SENTENCE)
    expected = inspector.what_if(
        before, inspector.word_replacement(before, "tired", "wide"), RemoveHead(at=CROSS, head=2)
    )
    assert found["after"] == expected.after.translation
    assert found["changed_source"] == SENTENCE.replace("tired", "wide")
    assert found["log_probabilities_after"] == pytest.approx(expected.original_log_probabilities)
    assert found["tokens"] == before.target


def test_tokens_of_an_edge_are_named(translator):
    inspector = inspect(translator)
    before = inspector.trace(SENTENCE)
    edge = RemoveEdge(at=CROSS, query=before.target.index("▁es"), key=before.source.index("▁animal"))
    by_name, by_place = (
        json.loads(run("what-if", "street", SENTENCE, "--remove-edge", f"{CROSS}:{query}:{key}", "--json"))
        for query, key in (("es", "animal"), (edge.query, edge.key))
    )
    assert by_name == by_place
    assert by_name["log_probabilities_after"] == pytest.approx(
        inspector.what_if(before, edge).original_log_probabilities
    )


def test_every_kind_of_change_in_words():
    output = run(
        "what-if", "street", SENTENCE, "--average-head", f"{CROSS}:0",
        "--uniform-attention", "encoder.layers.0.self_attention:1",
        "--uniform-attention", "encoder.layers.1.self_attention", "--skip-feed-forward", "encoder.layers.0",
        "--replace-matrices", f"{CROSS}=encoder.layers.0.self_attention", "--prefix", "Es war", "--beam", "2",
    )  # fmt: skip
    assert "\nEs war" in output
    assert "changed:" in output
    assert "log p before" in output


def test_a_set_is_scored_and_heads_are_ranked(files):
    source, reference = files
    output = json.loads(run("what-if", "street", "--source", source, "--reference", reference, "--json"))
    assert output["before"] == output["after"]
    assert output["same"] == output["of"] == 12
    every = [option for head in range(4) for option in ("--remove-head", f"{CROSS}:{head}")]
    worse = json.loads(run("what-if", "street", "--source", source, *every, "--count", "5", "--json"))
    assert worse["of"] == 5
    assert worse["after"]["chrf"] < worse["before"]["chrf"] == 100
    assert "signature" in run("what-if", "street", "--source", source, "--skip-feed-forward", "decoder.layers.0")
    ranked = json.loads(run("what-if", "street", "--source", source, "--rank-heads", "--json"))
    losses = [head["loss"] for head in ranked]
    assert losses == sorted(losses, reverse=True)
    assert len(ranked) == 24
    assert run("what-if", "street", "--source", source, "--rank-heads").startswith("attention")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Give either a sentence in quotes, or --source"),
        ([SENTENCE, "--rank-heads"], "--rank-heads needs a test set"),
        ([SENTENCE, "--remove-head", CROSS], "Expected --remove-head AT:HEAD, not"),
        ([SENTENCE, "--remove-head", f"{CROSS}:first"], "'first' is not a number"),
        ([SENTENCE, "--remove-head", f"{CROSS}:9"], r"Head 9 of .* is out of range \(0 to 3\)"),
        ([SENTENCE, "--replace", "tired"], "Expected --replace OLD=NEW, not"),
        ([SENTENCE, "--replace", "horse=cow"], "'horse' does not occur in"),
        ([SENTENCE, "--remove-edge", f"{CROSS}:es"], "--remove-edge .* should be AT:QUERY:KEY"),
        ([SENTENCE, "--remove-edge", f"{CROSS}:es:horse"], "There is no token 'horse'"),
        ([SENTENCE, "--skip-feed-forward", "encoder"], "encoder has no feed-forward"),
        (
            ["--source", "FILE", "--remove-edge", f"{CROSS}:0:0"],
            "--remove-edge changes one sentence: leave it out with --source",
        ),
    ],
)
def test_what_makes_no_sense_is_said_in_one_sentence(arguments, words, files):
    with pytest.raises(GlassformerError, match=words):
        run("what-if", "street", *(files[0] if argument == "FILE" else argument for argument in arguments))


def test_a_trace_is_written(tmp_path, translator):
    output = run(
        "trace", "street", SENTENCE, tmp_path / "one.safetensors", "--half", "--parameters", f"{CROSS}.k_proj.*"
    )
    assert "16 source and 14 target positions" in output
    again = Trace.load(tmp_path / "one.safetensors")
    assert again.translation == translator(SENTENCE)
    assert again.parameter(f"{CROSS}.k_proj.weight") is not None
    run("trace", "street", SENTENCE, tmp_path / "two", "--target", "Das Tier.", "--detail", "attention", "--steps", "2")
    assert Trace.load(tmp_path / "two").steps == 2
    with pytest.raises(GlassformerError, match="Unknown --detail 'some'; choose one of attention, full, everything"):
        run("trace", "street", SENTENCE, tmp_path / "three", "--detail", "some")
    assert not (tmp_path / "three").exists()
