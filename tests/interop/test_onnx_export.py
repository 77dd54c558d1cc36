"""ONNX export: the two files run by onnxruntime give the same logits and the same translations as our model."""

import json
import sys

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer import __version__
from glassformer.builtin import street
from glassformer.decoding import Beam, Ensemble, Request, Sample, search
from glassformer.engine.onnx_model import OnnxModel
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import DirectoryError, InputError
from glassformer.inspection import record
from glassformer.interop.capabilities import unsupported
from glassformer.interop.onnx_export import onnx_graph, write_onnx
from glassformer.model import ModelConfig, load_model
from glassformer.model_location import find_model, tokenizer_of
from tests.examples import max_examples
from tests.models import KINDS_OF_POSITIONS, build, build_source_sensitive, configs, seeds, sources, targets
from tests.rounding import float32_error, float32_errors

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

FILES = ("encoder.onnx", "decoder.onnx")
small = {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 2}


def written(model, directory, **options):
    write_onnx(model, directory, **options)
    return OnnxModel(directory, threads=1)


@pytest.fixture
def exported(tmp_path):
    """A small model, and its files in tmp_path."""
    model = build(ModelConfig(vocab_size=23, **small), dtype=torch.float32)
    return model, written(model, tmp_path, max_tokens=20)


# Two features whose norms are ±1: the rounding of their mean is all that is left, and no tap shows it.
two_features = ModelConfig(
    vocab_size=17, d_model=2, n_heads=1, d_head=1, d_ff=1, encoder_layers=1, decoder_layers=1, norm_eps=1e-6,
    tie_output=False, scale_embeddings=False, linear_bias=False, scale_scores=False,
)  # fmt: skip


@max_examples(80)
@given(config=configs(), seed=seeds)
@example(config=two_features, seed=0)
def test_it_gives_the_models_logits(tmp_path_factory, config, seed):
    """Sources and targets are long enough for the last bucket of relative distances, and one source is empty."""
    assert unsupported("the ONNX export", config) == []
    model = build(config, seed)
    source = sources(config, [5, 30, 0, 1], seed)
    target = targets(config, [9, 30, 3, 1], seed)
    theirs = written(model, tmp_path_factory.mktemp("onnx"), max_tokens=64)
    error = float32_error(lambda model: model(source, target), model)
    with torch.no_grad():
        assert (theirs.logits(source, target) - model(source, target)).abs().max() <= error


@max_examples(40)
@given(configs(), seeds, st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_some_tokens_at_a_time_equal_all_at_once(tmp_path_factory, config, seed, steps):
    model = build(config, seed)
    theirs = written(model, tmp_path_factory.mktemp("onnx"), max_tokens=64)
    source, target = sources(config, [4, 7], seed), targets(config, [sum(steps)] * 2, seed)
    read, past = theirs.read(source), theirs.empty_cache(2)
    outputs = []
    for tokens in target.split(steps, dim=1):
        logits, past = theirs.step(tokens, read, past)
        outputs.append(logits)
    error = float32_error(lambda model: model(source, target), model)
    assert (torch.cat(outputs, dim=1) - theirs.logits(source, target)).abs().max() <= 2 * error  # one error each


@max_examples(40)
@given(configs(), seeds)
def test_padding_and_neighbours_do_not_matter(tmp_path_factory, config, seed):
    model = build(config, seed)
    theirs = written(model, tmp_path_factory.mktemp("onnx"), max_tokens=64)
    source, target = sources(config, [3, 8], seed), targets(config, [5, 5], seed)
    alone = torch.cat([theirs.logits(source[:1, :3], target[:1]), theirs.logits(source[1:], target[1:])])
    wider = torch.nn.functional.pad(source, (0, 6), value=config.pad_id)
    error = float32_error(lambda model: model(source, target), model)
    assert (theirs.logits(source, target) - alone).abs().max() <= 2 * error  # one error each
    assert (theirs.logits(wider, target) - alone).abs().max() <= 2 * error


@max_examples(25)
@given(configs(), seeds)
def test_a_tensor_named_like_a_tap_has_the_taps_value(tmp_path_factory, config, seed):
    model, directory = build(config, seed), tmp_path_factory.mktemp("onnx")
    source, target = sources(config, [3, 5], seed), targets(config, [4, 4], seed)
    theirs = written(model, directory, max_tokens=16)

    def every_tap(model):
        with torch.no_grad(), record(model) as recording:
            model(source, target)
        return dict(recording)

    recorded, errors = every_tap(model), float32_errors(every_tap, model)
    read = {"source_ids": source.numpy(), "source_visible": (source != config.pad_id).numpy()}
    step = {"target_ids": target.numpy(), **theirs.read(source), **theirs.empty_cache(2)}
    for name, feeds, at_least in zip(FILES, (read, step), (12, 15), strict=True):
        file = onnx.load(directory / name)
        shared = [output for node in file.graph.node for output in node.output if output in recorded]
        assert len(shared) >= at_least
        outputs = {output.name for output in file.graph.output}
        file.graph.output.extend(onnx.ValueInfoProto(name=tap) for tap in shared if tap not in outputs)
        session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
        for tap, array in zip(shared, session.run(shared, feeds), strict=True):
            visible = recorded[tap].isfinite()  # ONNX has no -inf
            assert (torch.from_numpy(array)[visible] - recorded[tap][visible]).abs().max() <= errors[tap], tap


KINDS = [{"positions": kind} for kind in KINDS_OF_POSITIONS] + [{"decoder_ssru": True}, {"norm": "rms", "gated": True}]
SEARCHES = [
    Beam(size=1, max_length_ratio=0.0, max_length_extra=16),
    Beam(size=4, max_length_ratio=0.0, max_length_extra=16),
    Sample(max_length_ratio=0.0, max_length_extra=16),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
@pytest.mark.parametrize("how", SEARCHES, ids=["greedy", "beam", "sample"])
def test_it_translates_the_same(tmp_path, kind, how):
    model = build_source_sensitive(ModelConfig(vocab_size=23, tie_output=False, **small, **kind), 1)
    theirs = written(model, tmp_path)
    generator = torch.Generator().manual_seed(1)
    requests = [Request([*torch.randint(3, 23, (1 + i % 12,), generator=generator).tolist(), 2]) for i in range(40)]
    ours, others = search(PlainStepModel(model), requests, how), search(theirs, requests, how)
    assert len({tuple(found[0].tokens) for found in ours}) > 5
    assert [found[0].tokens for found in others] == [found[0].tokens for found in ours]
    assert [found[0].score for found in others] == pytest.approx([found[0].score for found in ours], abs=2e-5)


@pytest.mark.parametrize("how", [Beam(size=1), Beam(size=4)], ids=["greedy", "beam"])
def test_a_trained_model_translates_the_same(tmp_path, how):
    directory = find_model("street")
    model, tokenizer = load_model(directory), tokenizer_of(directory)
    requests = [Request(tokenizer.encode(pair.source, "source")) for pair in street.sentences("test", 100)]
    ours, others = search(PlainStepModel(model), requests, how), search(written(model, tmp_path), requests, how)
    assert [found[0].tokens for found in others] == [found[0].tokens for found in ours]


def test_it_works_alone_and_in_an_ensemble(exported):
    model, theirs = exported
    requests = [Request([5, 9, 2]), Request([7, 3, 3, 8, 2])]
    expected = [found[0].tokens for found in search(PlainStepModel(model), requests, Beam(size=3))]
    for step_model in (theirs, Ensemble([PlainStepModel(model), theirs])):
        assert [found[0].tokens for found in search(step_model, requests, Beam(size=3))] == expected


@max_examples(40)
@given(configs(), seeds)
def test_every_weight_is_stored_once_under_its_name(tmp_path_factory, config, seed):
    model, directory = build(config, seed, torch.float32), tmp_path_factory.mktemp("onnx")
    write_onnx(model, directory, max_tokens=16)
    weights, seen = dict(model.named_parameters()), set()
    for name in FILES:
        tensors = onnx.load(directory / name).graph.initializer
        arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}
        assert len(arrays) == len(tensors)
        fixed = {name for name in arrays if ":" in name or name.split(".")[-1] in ("table", "buckets")}
        assert arrays.keys() - fixed <= weights.keys()
        for known in arrays.keys() & weights.keys():
            assert torch.equal(torch.from_numpy(arrays[known].copy()), weights[known])
        seen |= arrays.keys() & weights.keys()
    assert seen == weights.keys()


@max_examples(20)
@given(configs(), seeds, st.booleans())
def test_the_same_model_is_the_same_bytes(tmp_path_factory, config, seed, large):
    once, again = (tmp_path_factory.mktemp("onnx") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_graph, "MAX_INLINE_BYTES", 0 if large else onnx_graph.MAX_INLINE_BYTES)
        for directory in (once, again, again):  # overwriting, too
            write_onnx(build(config, seed), directory, max_tokens=600)
    names = sorted(path.name for path in once.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert len(names) == (4 if large else 2)
    for name in names:
        assert (once / name).read_bytes() == (again / name).read_bytes()


def test_weights_too_large_for_a_file_are_external(exported, tmp_path, monkeypatch):
    model, inline = exported
    directory = tmp_path / "external"
    directory.mkdir()
    monkeypatch.setattr(onnx_graph, "MAX_INLINE_BYTES", 0)
    monkeypatch.setattr(onnx_graph, "PAGE_BYTES", 64)
    external = written(model, directory, max_tokens=20)
    for name in FILES:
        assert (directory / f"{name}.data").stat().st_size > (directory / name).stat().st_size / 2
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 4, 4]])
    assert torch.equal(inline.logits(source, target), external.logits(source, target))
    monkeypatch.undo()
    write_onnx(model, directory)
    assert sorted(path.name for path in directory.iterdir()) == sorted(FILES)


def test_the_files_have_metadata(exported, tmp_path):
    model, _ = exported
    for name in FILES:
        metadata = {prop.key: prop.value for prop in onnx.load(tmp_path / name).metadata_props}
        assert metadata["glassformer"] == __version__
        assert ModelConfig(**json.loads(metadata["config"])) == model.config
        assert [metadata[key] for key in ("bos_id", "eos_id", "pad_id", "max_tokens")] == ["1", "2", "0", "20"]


def test_a_sentence_is_as_long_as_the_table_and_no_longer(exported):
    _, theirs = exported
    assert theirs.max_tokens == 20
    source, target = torch.full((1, 20), 5), torch.full((1, 20), 6)
    theirs.logits(source, target)
    for long in ((torch.full((1, 21), 5), target), (source, torch.full((1, 21), 6))):
        with pytest.raises(InputError, match="has 21 tokens, but the exported model has only 20 positions"):
            theirs.logits(*long)
    with pytest.raises(InputError, match="but this model has only 20 positions"):
        search(theirs, [Request([5] * 21)], Beam())
    [[best]] = search(theirs, [Request([5, 2])], Beam(size=1, min_length_ratio=10.0))
    assert len(best.tokens) <= 20


def test_relative_positions_have_no_limit(tmp_path):
    model = build(ModelConfig(vocab_size=23, positions="relative", **small), dtype=torch.float32)
    theirs = written(model, tmp_path, max_tokens=8)
    assert theirs.max_tokens is None
    ids = torch.randint(3, 23, (1, 300), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(theirs.logits(ids, ids), model(ids, ids), rtol=0, atol=1e-4)


def test_ids_out_of_range_are_refused(exported):
    _, theirs = exported
    for ids in ([[3, 23]], [[-1, 3]]):
        for source, target in ((ids, [[1]]), ([[3]], ids)):
            with pytest.raises(InputError, match="must be from 0 to 22"):
                theirs.logits(torch.tensor(source), torch.tensor(target))


def test_targets_and_sources_must_match_in_number(exported):
    with pytest.raises(InputError, match="3 target rows for 1 source rows"):
        exported[1].logits(torch.tensor([[5, 2]]), torch.ones(3, 2, dtype=torch.long))


def test_unsupported_options_are_refused_by_name(exported, tmp_path):
    model, _ = exported
    model.config = model.config.model_copy(update={"positions": "wavelets", "norm": "batch"})
    with pytest.raises(InputError, match=r"positions = wavelets \(only sin.*\), norm = batch \(only layer or rms\)"):
        write_onnx(model, tmp_path)


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_a_missing_library_is_named(exported, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=rf"{missing} is not installed: `pip install 'glassformer\[onnx\]'`"):
        written(exported[0], tmp_path)


def test_other_onnx_files_are_refused(exported, tmp_path):
    file = onnx.load(tmp_path / "decoder.onnx")
    del file.metadata_props[:]
    onnx.save(file, tmp_path / "decoder.onnx")
    with pytest.raises(DirectoryError, match=r"decoder.onnx was not exported by Glassformer"):
        OnnxModel(tmp_path)
    (tmp_path / "decoder.onnx").write_bytes(b"nonsense")
    with pytest.raises(DirectoryError, match=r"onnxruntime cannot open .*decoder.onnx"):
        OnnxModel(tmp_path)
    (tmp_path / "encoder.onnx").unlink()
    with pytest.raises(DirectoryError, match=r"encoder.onnx does not exist"):
        OnnxModel(tmp_path)
