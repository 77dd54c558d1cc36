"""Every command opens every kind of model: built-in name, run, model directory, Hugging Face directory, Marian file."""

import json

import pytest
import sentencepiece

from glassformer.interop.hugging_face import write_hugging_face
from tests.examples import cases, only_in_test_all
from tests.interop import marian_writer as marian
from tests.interop.test_marian_vocabulary import SENTENCES, spm
from tests.processes import glassformer
from tests.server.running import running
from tests.small_translator import model, saved, tokenizer

TEXT = "The dog was tired."


def save_marian(directory):
    """A Marian file of a small random student, with its vocabulary."""
    directory.mkdir()
    vocabulary = spm(SENTENCES["en"], 60)
    (directory / "vocab.en.spm").write_bytes(vocabulary)
    size = sentencepiece.SentencePieceProcessor(model_proto=vocabulary).vocab_size()
    options = marian.options(dim_vocabs=[size, size])
    marian.write_npz(directory / "model.npz", marian.tensors(options), options)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Kind of model -> its name or path."""
    directory = tmp_path_factory.mktemp("models")
    saved(directory / "run" / "best-3")
    saved(directory / "model")
    (directory / "hugging-face").mkdir()
    write_hugging_face(model(), tokenizer(), directory / "hugging-face")
    save_marian(directory / "marian")
    (directory / "pair.en").write_text(f"{TEXT}\n")
    (directory / "pair.de").write_text("Der Hund war müde.\n")
    paths = {kind: directory / kind for kind in ("run", "model", "hugging-face")}
    return paths | {"street": "street", "marian": directory / "marian" / "model.npz", "directory": directory}


KINDS = ["street", "run", "model", "hugging-face", "marian"]
COMMANDS = {
    "translate": [TEXT],
    "evaluate": ["--source", "pair.en", "--reference", "pair.de"],
    "score": ["--source", "pair.en", "--target", "pair.de"],
    "verify": ["--count", "2"],
    "describe": [],
    "explain": [TEXT],
    "explore": [TEXT, "--html", "page.html"],
    "figure": [TEXT, "attention", "figure.svg"],
    "align": ["--source", "pair.en", "--target", "pair.de"],
}


quick = [*((command, "hugging-face") for command in COMMANDS), *(("translate", kind) for kind in KINDS)]
rest = [(command, kind) for command in COMMANDS for kind in KINDS if (command, kind) not in quick]


@pytest.mark.parametrize(("command", "kind"), cases(*dict.fromkeys(quick), more=rest))
def test_it_opens(command, kind, models, tmp_path):
    files = {name: str(models["directory"] / name) for name in ("pair.en", "pair.de")}
    files |= {name: str(tmp_path / name) for name in ("page.html", "figure.svg")}
    arguments = [files.get(argument, argument) for argument in COMMANDS[command]]
    done = glassformer(command, models[kind], *arguments)
    assert done.returncode == 0, done.stderr


@only_in_test_all
@pytest.mark.parametrize("kind", KINDS)
def test_bench_opens(kind, models):
    done = glassformer("bench", models[kind], "--count", 2, "--rounds", 1, "--beam", 1, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"][0]["tokens_per_second"] > 0


@pytest.mark.parametrize("kind", cases("street", "marian", more=["run", "model", "hugging-face"]))
def test_serve_opens(kind, models):
    from glassformer.server.translation_service import open_served_model

    with running(open_served_model(models[kind])) as server:
        assert server.post("/api/translate", {"text": TEXT, "alignment": True}).status == 200
