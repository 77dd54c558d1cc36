"""Files written by every released version open for ever, and mean what they meant.

The archives were written by `write_golden.py` of their version. Rounding differs between processors and versions of
torch, so numbers are compared with a tolerance; names, shapes, ids and texts exactly.
"""

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.imported_tokenizer import read_tokenizer
from glassformer.decoding.alignment_choice import default_alignment_heads, read_alignment_heads
from glassformer.engine.shortlist_file import read_shortlist
from glassformer.model.weight_files import read_tensors
from glassformer.training.checkpoint import newest_checkpoint
from tests.golden.write_golden import SOURCE_IDS, TARGET_IDS, TEXTS, shortlist, token_ids
from tests.training.runs import Listener, trained

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))


@pytest.fixture(scope="module", params=[archive.name.removesuffix(".tar.xz") for archive in ARCHIVES])
def files(request, tmp_path_factory):
    """The unpacked archive of a version."""
    directory = tmp_path_factory.mktemp("golden")
    with tarfile.open(Path(__file__).parent / f"{request.param}.tar.xz") as tar:
        tar.extractall(directory, filter="data")
    return directory


@pytest.fixture
def expected(files):
    return json.loads((files / "expected.json").read_text(encoding="utf-8"))


def test_there_are_files_of_the_first_version():
    assert "0.1.0.tar.xz" in [archive.name for archive in ARCHIVES]
    assert sum(archive.stat().st_size for archive in ARCHIVES) < 100_000 * len(ARCHIVES)


def test_models_compute_the_same_logits(files, expected):
    assert {path.name for path in (files / "models").iterdir()} == set(expected["logits"])
    for name, logits in expected["logits"].items():
        model = glassformer.load_model(files / "models" / name).double()
        with torch.no_grad():
            computed = model(torch.tensor(SOURCE_IDS), torch.tensor(TARGET_IDS))
        torch.testing.assert_close(computed, torch.tensor(logits, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_tokenizers_give_the_same_ids(files, expected):
    for name, tokens in expected["tokens"].items():
        assert token_ids(read_tokenizer(files / "tokenizers" / name)) == tokens, name
    assert token_ids(glassformer.load(files / "translators/own").tokenizer) == expected["own tokens"]


@pytest.mark.parametrize("name", ["own", "imported"])
def test_models_translate_the_same(files, expected, name):
    translator = glassformer.load(files / "translators" / name)
    found = [translation.candidates[0] for translation in translator.translations(TEXTS)]
    for candidate, before in zip(found, expected["translations"][name], strict=True):
        assert (candidate.ids, candidate.text) == (before["ids"], before["text"])
        assert candidate.log_probabilities == pytest.approx(before["log_probabilities"], abs=1e-4)


def test_alignment_heads_are_the_same(files):
    directory = files / "translators/own"
    config = glassformer.load_model(directory).config
    assert (directory / "alignment.json").exists()
    assert read_alignment_heads(directory, config) == default_alignment_heads(config)


def test_the_shortlist_is_the_same_and_used(files):
    directory = files / "translators/own"
    config = glassformer.load_model(directory).config
    found = read_shortlist(directory, config.source_vocab_size, config.vocab_size)
    expected = shortlist(config.vocab_size)
    for name in ("always", "offsets", "targets"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert (found.copies_source, found.measurement) == (expected.copies_source, expected.measurement)
    assert glassformer.load(directory).uses_shortlist


def test_eight_bits_are_read_as_float32(files):
    assert {tensor.dtype for tensor in read_tensors(files / "models/eight-bits/model.safetensors").values()} == {
        "int8",
        "float32",
    }


def test_a_trace_has_what_the_model_computes(files):
    """Every tensor of the file equals the one of a new trace of the same text by the same model."""
    old = glassformer.Trace.load(files / "trace.safetensors")
    new = glassformer.inspect(glassformer.load(files / "translators/imported")).trace(TEXTS[0])
    assert (old.text, old.translation, old.source, old.target) == (new.text, new.translation, new.source, new.target)
    assert len(old) > 50
    for name in old:
        assert old.axes(name) == new.axes(name)
        torch.testing.assert_close(old[name], new[name], rtol=1e-4, atol=1e-4, msg=name)
    assert old.tree.token == new.tree.token
    assert old.tree.fate == new.tree.fate
    weight = "encoder.layers.0.self_attention.q_proj.weight"
    assert torch.equal(old.parameter(weight), new.parameter(weight))
    assert old.parameter("decoder.layers.0.self_attention.q_proj.weight") is None


def test_a_small_trace_has_the_attention(files):
    """Attention weights in float16, nothing else but the probabilities."""
    small = glassformer.Trace.load(files / "small-trace.safetensors")
    full = glassformer.Trace.load(files / "trace.safetensors")
    assert set(small) < set(full)
    assert sum(name.endswith("_attention.weights") for name in small) == 3
    for name in small:
        torch.testing.assert_close(small[name].float(), full[name].float(), rtol=1e-3, atol=1e-3, msg=name)


def test_an_interrupted_run_resumes(files, expected, tmp_path, monkeypatch):
    """From its checkpoint to its end, with the losses of the run that was not interrupted."""
    for name in ("run", "text"):
        shutil.copytree(files / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert newest_checkpoint(Path("run"), pytest.fail).state.update == 3
    listener = Listener()
    options = expected["run"]["options"]
    report = trained(options, listener)
    assert any("Resuming from" in message and "step-3" in message for message in listener.messages)
    assert (report["updates"], report["ended"]) == (6, "all 6 updates completed")
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    for line, before in zip(lines, expected["run"]["metrics"], strict=True):
        assert line.keys() == before.keys()
        for key in line.keys() - {"best", "dev_bleu", "dev_chrf"}:  # which may turn on a rounding error
            assert line[key] == pytest.approx(before[key], rel=1e-3), key
