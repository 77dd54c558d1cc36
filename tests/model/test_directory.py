"""The model directory: a saved model is restored bit for bit, and a damaged one is never loaded."""

import json
import os
import shutil
import string
from pathlib import Path

import pytest
import torch
from hypothesis import given
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from glassformer.atomic_directory import MANIFEST, building, verify
from glassformer.errors import DirectoryError, GlassformerError, SettingsError
from glassformer.model import Transformer, load_model, preset, save_model
from tests.examples import max_examples, seeded_random
from tests.models import build, configs, seeds, sources, targets

FILES = {"config.json", "model.safetensors", "manifest.json"}


@pytest.fixture
def saved(tmp_path) -> Path:
    save_model(build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4)), tmp_path / "model")
    return tmp_path / "model"


@max_examples(500)
@given(configs(), seeds)
@torch.no_grad()
def test_random_models_come_back_with_the_same_bits(tmp_path_factory, config, seed):
    model = build(config, seed, torch.float32)
    source, target = sources(config, [4, 2], seed), targets(config, [3, 3], seed)
    path = tmp_path_factory.mktemp("models") / "model"
    save_model(model, path)
    again = load_model(path)
    assert again.config == config
    assert set(os.listdir(path)) == FILES
    for (name, weight), (other_name, other) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert name == other_name
        assert torch.equal(weight, other), name
    assert torch.equal(model(source, target), again(source, target))
    shutil.rmtree(path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_number_format_of_the_weights_is_kept(tmp_path, dtype):
    save_model(build(preset("tiny", vocab_size=20), dtype=dtype), tmp_path / "model")
    assert {weight.dtype for weight in load_model(tmp_path / "model").parameters()} == {dtype}


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("tie", [True, False])
def test_tied_weights_are_stored_once_and_stay_tied(tmp_path, share, tie):
    """transformers#38870, accelerate PR#2875: tied weights lost, or a random output layer after loading."""
    save_model(build(preset("tiny", vocab_size=20, share_embeddings=share, tie_output=tie)), tmp_path / "model")
    with safe_open(tmp_path / "model/model.safetensors", "pt") as file:
        stored = set(file.keys())
    assert ("decoder.embedding.weight" in stored) == (not share)
    assert ("output_projection.weight" in stored) == (not tie)

    model = load_model(tmp_path / "model")
    assert (model.decoder.embedding.weight is model.encoder.embedding.weight) == share
    assert (model.output_projection.weight is model.decoder.embedding.weight) == tie


def test_a_loaded_model_can_be_trained(saved):
    model = load_model(saved).train()
    model(sources(model.config, [4], 0), targets(model.config, [3], 0)).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_two_hundred_corruptions_are_all_detected(saved, tmp_path):
    """safetensors loads 15 % of corrupted files without an error; the checksums detect all of them."""
    pick = seeded_random("corruptions")
    for number in range(200):
        broken = tmp_path / "broken"
        shutil.copytree(saved, broken)
        file = broken / pick.choice(sorted(FILES))
        content = bytearray(file.read_bytes())
        if number % 4 == 0:
            file.write_bytes(content[: pick.randrange(len(content))])
            damage = "truncated"
        else:
            position = pick.randrange(len(content))
            # Every second time a character that may keep JSON valid, which is the hardest to notice.
            choices = string.printable.encode() if number % 2 else range(256)
            content[position] = pick.choice([byte for byte in choices if byte != content[position]])
            file.write_bytes(content)
            damage = f"byte {position} changed to {content[position]}"
        with pytest.raises(GlassformerError):
            pytest.fail(f"{file.name} {damage} and loaded: {load_model(broken)}")
        shutil.rmtree(broken)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_byte_of_every_small_file_matters(saved, name):
    """Exhaustive, not a sample: each of the first 1500 bytes of each file is changed once."""
    content = (saved / name).read_bytes()
    for position in range(min(len(content), 1500)):
        changed = bytearray(content)
        changed[position] ^= 1
        (saved / name).write_bytes(changed)
        with pytest.raises(GlassformerError):
            verify(saved)
    (saved / name).write_bytes(content)
    verify(saved)


def update_manifest(directory: Path) -> None:
    """Write a manifest for the files as they are now, so that a test reaches the checks after the checksums."""
    content = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != MANIFEST}
    shutil.rmtree(directory)
    with building(directory) as temporary:
        for name, value in content.items():
            (temporary / name).write_bytes(value)


def test_missing_unexpected_and_misshapen_tensors_are_named_together(saved):
    weights = load_file(saved / "model.safetensors")
    del weights["encoder.layers.0.self_attention.q_proj.weight"]
    del weights["decoder.layers.3.cross_attention.k_proj.bias"]
    weights["decoder.layers.4.cross_attention.k_proj.bias"] = torch.zeros(8, dtype=torch.float64)
    weights["encoder.final_norm.weight"] = torch.zeros(9, dtype=torch.float64)
    (saved / "model.safetensors").unlink()  # it is memory-mapped, so it must not be overwritten in place
    save_file(weights, saved / "model.safetensors")
    update_manifest(saved)
    with pytest.raises(DirectoryError) as error:
        load_model(saved)
    for word in (
        "missing: decoder.layers.3.cross_attention.k_proj.bias, encoder.layers.0.self_attention.q_proj.weight",
        "unexpected: decoder.layers.4.cross_attention.k_proj.bias",
        "encoder.final_norm.weight has shape [9] instead of [8]",
    ):
        assert word in str(error.value)


def test_weights_that_are_not_numbers_of_one_kind_are_refused(saved):
    weights = load_file(saved / "model.safetensors")
    weights["encoder.final_norm.weight"] = torch.zeros(8, dtype=torch.int64)
    (saved / "model.safetensors").unlink()
    save_file(weights, saved / "model.safetensors")
    update_manifest(saved)
    with pytest.raises(DirectoryError, match="float64, int64"):
        load_model(saved)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"d_modle": 8}, "did you mean 'd_model'"),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "There is no option 'auto_map'"),
        ({"n_heads": "2"}, "n_heads = '2' should be a whole number"),
        ({"d_ff": 0}, "d_ff = 0 should be at least 1"),
    ],
)
def test_a_config_with_something_foreign_in_it_is_refused(saved, change, says):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | change))
    update_manifest(saved)
    with pytest.raises(SettingsError) as error:
        load_model(saved)
    assert says in str(error.value)
    assert "config.json" in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"vocab_size": 9, "vocab_size": 9}', "'vocab_size' is given twice"),
        (b'{"vocab_size": NaN}', "NaN is not valid in JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", r"^\S+config\.json is JSON, but not an object with named options\.$"),
        (b'{"vocab_size": 9', "not readable as JSON"),
        (b'{"vocab_size": "\xff"}', "not readable as JSON"),
        (b" " * 1_000_001, "larger than 1,000,000 bytes"),
    ],
)
def test_a_config_that_is_not_json_is_refused(saved, content, says):
    (saved / "config.json").write_bytes(content)
    update_manifest(saved)
    with pytest.raises(SettingsError, match=says):
        load_model(saved)


@pytest.mark.parametrize("name", ["../elsewhere", "/etc/passwd", "a/../../b"])
def test_a_manifest_that_points_elsewhere_is_refused(saved, name):
    manifest = json.loads((saved / MANIFEST).read_text())
    manifest["files"][name] = {"bytes": 1, "sha256": "0" * 64}
    (saved / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    with pytest.raises(DirectoryError, match=f"has an invalid entry: {name!r}"):
        load_model(saved)


def test_a_link_in_place_of_a_file_is_refused(saved, tmp_path):
    shutil.move(saved / "config.json", tmp_path / "elsewhere.json")
    (saved / "config.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DirectoryError, match=r"config\.json is missing"):
        load_model(saved)


def test_pickles_are_never_opened(saved):
    """A directory with only a pickle is not a model, and the pickle is not opened."""
    (saved / "model.safetensors").unlink()
    (saved / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'echo pwned'\ntR.")
    update_manifest(saved)
    with pytest.raises(DirectoryError, match=r"does not list model\.safetensors"):
        load_model(saved)


def test_what_exists_is_never_overwritten(saved):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(DirectoryError, match="already exists, and nothing is overwritten: choose another name"):
        save_model(Transformer(preset("tiny", vocab_size=20)), saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_a_directory_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(DirectoryError, match="There is no directory"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(DirectoryError, match=r"has no manifest\.json"):
        load_model(tmp_path)


def test_notes_beside_the_model_do_no_harm(saved):
    """Only files in the manifest are verified; a README that is added later is not an error."""
    (saved / "NOTES.md").write_text("trained on a rainy day")
    load_model(saved)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_files_are_readable_as_the_umask_allows(tmp_path, umask, mode):
    """The weights had the mode 0600 in any case, so that a service user could not read them."""
    before = os.umask(umask)
    try:
        save_model(build(preset("tiny", vocab_size=20)), tmp_path / "model")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert modes == dict.fromkeys(("config.json", "model.safetensors", MANIFEST), mode)
