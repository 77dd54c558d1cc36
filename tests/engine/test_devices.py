"""Devices, without a GPU: every tensor path on torch's `meta` device, and real searches on a pretended second one."""

import contextlib
import re
import sys

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer import inspect, load
from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, search
from glassformer.decoding.next_tokens import Restriction, summarise_logits
from glassformer.decoding.rules import ANY_TOKEN, AllowedTokens
from glassformer.decoding.search_tree import search_tree
from glassformer.decoding.vocabulary_shortlist import MaskedStepModel
from glassformer.engine import EngineOptions, describe_engine, devices, factory, tensor_next_tokens
from glassformer.engine.tensor_next_tokens import TensorNextTokens, at_least_float32, summarised, top
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import InputError, SettingsError
from glassformer.inspection.interventions.changes import AverageHead, RemoveEdge, RemoveHead, UniformAttention
from glassformer.inspection.interventions.cross_attention_matrices import exchange_matrices
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.record import record
from glassformer.inspection.tracing.trace_builder import _output, trace
from glassformer.model import ModelWeights, Transformer
from tests.decoding.test_search_on_models import lively, texts_of
from tests.engine.test_shortlists import random_shortlist
from tests.examples import max_examples
from tests.models import build, build_source_sensitive, configs, lengths, seeds, sources, targets
from tests.pretended_device import DEVICE, DeviceTensor, MixedDevicesError, meta_device, pretended_device
from tests.processes import glassformer as run_command
from tests.small_translator import saved

short = {"max_length_ratio": 0.5, "max_length_extra": 4}
beams = st.sampled_from(
    [
        Beam(size=1, length_penalty=0.0, **short),
        Beam(size=3, n_best=2, **short),
        Beam(size=2, diversity=0.5, min_length_ratio=1.0, max_length_ratio=2.0),
        Beam(size=3, no_repeat=2, **short),
    ]
)
samples = st.sampled_from([Sample(n_best=3, **short), Sample(n_best=2, top_k=3, top_p=0.8, temperature=0.7, **short)])


def test_mixing_devices_is_an_error():
    """The guards of these tests notice a tensor that was left on the CPU."""
    with pretended_device():
        ours, ids = torch.ones(3).to(DEVICE), torch.tensor([1], device=DEVICE)
        assert isinstance(ours, DeviceTensor)
        assert (2 * ours[ids]).cpu().tolist() == [2.0]
        for mixed in (
            lambda: ours + torch.ones(3),
            lambda: torch.ones(3)[ids],
            lambda: ours.index_select(0, ids.cpu()),
        ):
            with pytest.raises(MixedDevicesError):
                mixed()
    with meta_device(), pytest.raises(MixedDevicesError):
        torch.ones(2, 3, device="meta").index_select(0, torch.tensor([1]))


# ---- on torch's `meta` device, which has no values: every path up to where numbers come back


def on_meta(config) -> Transformer:
    with torch.device("meta"):
        return Transformer(config).eval()


@max_examples(30)
@given(configs(), seeds, lengths)
def test_decoding_leaves_no_tensor_on_the_cpu(config, seed, source_lengths):
    """All kinds of positions, norms and decoders: at once, and step by step with reordered rows."""
    model, source, target = (
        on_meta(config),
        sources(config, source_lengths, seed),
        targets(config, source_lengths, seed),
    )
    with meta_device(), torch.no_grad():
        logits = model(source.to("meta"), target.to("meta"))
        assert logits.is_meta
        assert logits.shape == (*target.shape, config.vocab_size)
        session = PlainStepModel(model).open(2)
        session.join([[config.eos_id]] * len(source), [3] * len(source))
        for rows in ([0, *range(len(source))], [0], []):
            prediction = session.step([config.bos_id] * len(session.state.source_visible), 0, ())
            assert isinstance(prediction, TensorNextTokens)
            assert prediction.logits.is_meta
            session.keep(rows)


@max_examples(20)
@given(st.integers(1, 4), st.integers(4, 9), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
def test_selecting_candidates_leaves_no_tensor_on_the_cpu(rows, vocab_size, dtype):
    allowed = [AllowedTokens(only=(1,)), AllowedTokens(never=(0, 2)), AllowedTokens(also=(3,), never=(1,)), ANY_TOKEN]
    with meta_device():
        prediction = summarised(at_least_float32(torch.empty(rows, vocab_size, dtype=dtype, device="meta")), 0, ())
        parts = [
            prediction.restricted(range(rows), Restriction(allowed[:rows], [0], 2)),
            prediction.averaged([prediction], 0, ()),
            prediction.within([np.array([1, 2], np.int32)] * rows, 0, ()),
        ]
        for part in (prediction, *parts):
            for count in (1, 3, 100):
                assert all(x.is_meta for x in top(part.logits, part.normaliser, count))
            p = tensor_next_tokens.filtered(part.logits, Sample(top_k=2, top_p=0.5, epsilon=0.1))
            assert tensor_next_tokens.inverse_cdf(p, part._numbers([0.5] * rows)).is_meta


@max_examples(20)
@given(configs(), seeds, lengths)
def test_inspecting_leaves_no_tensor_on_the_cpu(config, seed, source_lengths):
    model, source, target = (
        on_meta(config),
        sources(config, source_lengths, seed),
        targets(config, source_lengths, seed),
    )
    copy = weight_sharing_copy(model)
    at = "decoder.layers.0.cross_attention"
    for change in (RemoveHead(at=at, head=0), AverageHead(at=at, head=0), UniformAttention(at=at)):
        means = {at: torch.empty(config.n_heads, config.d_head, device="meta")}
        for name, listener in change.listeners(copy, means).items():
            copy.get_submodule(name).listeners.append(listener)
    with meta_device(), record(copy) as recording, torch.no_grad():
        logits = copy(source.to("meta"), target.to("meta"))
        output = _output(logits[0], target[0].to("meta"))
    assert all(recording[name].is_meta for name in recording)
    assert all(x.is_meta for x in output.values())


# ---- on a pretended device with the CPU's memory: the results are those of the CPU


def on_device(model: Transformer, dtype: str | None = None) -> Transformer:
    return ModelWeights.of(model).on(DEVICE, dtype).network


def requests_of(config, seed, data) -> list[Request]:
    """Requests with forced prefixes and phrases, of different lengths."""
    words = st.sampled_from(
        [token for token in range(config.vocab_size) if token not in (config.pad_id, config.eos_id)]
    )
    texts = texts_of(config, seed)
    prefixes = data.draw(st.lists(st.lists(words, max_size=2), min_size=len(texts), max_size=len(texts)))
    phrases = data.draw(st.lists(st.lists(words, min_size=1, max_size=2).map(tuple), max_size=2))
    return [Request(text, tuple(prefix), tuple(phrases)) for text, prefix in zip(texts, prefixes, strict=True)]


def assert_equal(ours, theirs, settings=None, tolerance=1e-9):
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            if a.tokens == b.tokens:
                assert a.log_probabilities == pytest.approx(b.log_probabilities, rel=tolerance, abs=tolerance)
            else:  # a tie, broken by rounding
                assert a.score == pytest.approx(b.score, rel=tolerance, abs=tolerance)
                assert not isinstance(settings, Sample)


@max_examples(40)
@given(configs(), seeds, st.one_of(beams, samples), st.data())
def test_searches_on_a_device_are_those_of_the_cpu(config, seed, settings, data):
    """Greedy, beam, sampling; constraints, suppressed tokens, ensembles, shortlists."""
    model, requests = lively(config, seed), requests_of(config, seed, data)
    forced = {token for request in requests for token in (*request.prefix, *sum(request.phrases, ()), config.eos_id)}
    suppress = tuple(sorted({*range(config.vocab_size)} - forced))[: data.draw(st.integers(0, 2))]
    settings = settings.model_copy(update={"suppress": suppress})
    kind = data.draw(st.sampled_from(["one", "ensemble", "shortlist"]))
    shortlist, limits = random_shortlist(config, seed), BatchLimits(sentences=data.draw(st.integers(1, 3)))

    def searched(place):
        step_model = PlainStepModel(place(model))
        if kind == "ensemble":
            step_model = Ensemble([step_model, PlainStepModel(place(lively(config, seed + 1)))])
        return search(
            MaskedStepModel(step_model, shortlist) if kind == "shortlist" else step_model, requests, settings, limits
        )

    with pretended_device():
        ours = searched(on_device)
    assert_equal(ours, searched(lambda x: x), settings)


@max_examples(20)
@given(configs(), seeds)
def test_float32_on_a_device_is_that_of_the_cpu(config, seed):
    """Also scores, and attention weights."""
    model = build_source_sensitive(config, seed)
    requests = [Request(text) for text in texts_of(config, seed)]
    plain = PlainStepModel(model)
    found = search(plain, requests, Beam(size=2, **short))
    pair = ([request.source for request in requests], [best.tokens for best, *_ in found])
    with pretended_device():
        step_model = PlainStepModel(on_device(model))
        assert_equal(search(step_model, requests, Beam(size=2, **short)), found, tolerance=1e-3)
        log_ps, attention = step_model.log_probabilities(*pair), step_model.attention(*pair, [(0, 0)])
    for one, other in zip(log_ps, plain.log_probabilities(*pair), strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    for one, other in zip(attention, plain.attention(*pair, [(0, 0)]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@max_examples(20)
@given(configs(), seeds, st.one_of(beams, samples), st.sampled_from(["float16", "bfloat16"]))
def test_half_precision_on_a_device(config, seed, settings, precision):
    """Products are in half precision, probabilities are normalised in float32: each is that of its target's score."""
    requests = [Request(text) for text in texts_of(config, seed)]
    with pretended_device():
        model = on_device(build_source_sensitive(config, seed), precision)
        assert {weight.dtype for weight in model.parameters()} == {getattr(torch, precision)}
        step_model = PlainStepModel(model)
        session = step_model.open(1)
        session.join([requests[0].source], [3])
        prediction = session.step([config.bos_id], 0, ())
        total = prediction.logits.log_softmax(-1).exp().sum().cpu().item()
        try:
            found = search(step_model, requests, settings)
        except InputError:  # overflow, which is refused in every precision
            found = None
    assert total == pytest.approx(1, abs=1e-5)
    assert prediction.logits.dtype == torch.float32
    assume(found is not None)
    assert all(hypothesis.tokens[-1] == config.eos_id for n_best in found for hypothesis in n_best)


@max_examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(4, 12), st.integers(1, 13), st.data())
def test_candidates_are_those_of_numpy(seed, rows, vocab_size, count, data):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, vocab_size)) * 3
    tokens = st.lists(st.integers(0, vocab_size - 1), max_size=3, unique=True).map(tuple)
    choices = st.one_of(
        st.just(ANY_TOKEN), st.builds(AllowedTokens, never=tokens, also=tokens), st.builds(AllowedTokens, only=tokens)
    )
    allowed = [data.draw(choices) for _ in range(rows)]
    restriction = Restriction(allowed, sorted(data.draw(tokens)), eos=2)
    uniforms, chosen = generator.random(rows).tolist(), list(range(rows))
    sample = Sample(top_k=data.draw(st.integers(0, 4)), top_p=data.draw(st.sampled_from([0.5, 1.0])), epsilon=0.05)
    numpy, ours = summarise_logits(logits.copy(), count, [1]), summarised(torch.from_numpy(logits.copy()), count, [1])
    assert [dict(row) for row in ours.candidates] == [pytest.approx(dict(row)) for row in numpy.candidates]
    kept = generator.permutation(rows)[: max(1, rows - 1)].tolist()
    few = Restriction([allowed[row] for row in kept], restriction.suppress, 2)
    for one, other in zip(
        ours.restricted(kept, few).most_likely(count), numpy.restricted(kept, few).most_likely(count), strict=True
    ):
        possible = [{token: log_p for token, log_p in row if log_p > -np.inf} for row in (one, other)]
        assert possible[0] == pytest.approx(possible[1])
        assert len(one) == len(other)
    one, other = (each.restricted(chosen, restriction) for each in (ours, numpy))
    if all(np.isfinite(other.logits).any(-1)):
        assert one.sampled(chosen, uniforms, sample) == [
            (token, pytest.approx(log_p)) for token, log_p in other.sampled(chosen, uniforms, sample)
        ]


def test_logits_that_are_not_numbers_are_refused_on_a_device():
    for bad in (torch.nan, torch.inf):
        logits = torch.zeros(1, 5)
        logits[0, 3] = bad
        with pretended_device(), pytest.raises(InputError, match="not numbers"):
            summarised(logits.to(DEVICE), 0, ()).sampled([0], [0.5], Sample())
    model = build_source_sensitive(ModelWeights.of(build(small_config())).config, 0)
    with torch.no_grad():
        model.output_projection.weight[3] = torch.inf
    with pretended_device(), pytest.raises(InputError, match="not numbers"):
        search(PlainStepModel(on_device(model)), [Request([5, 2])], Beam())


def small_config():
    from glassformer.model import ModelConfig

    return ModelConfig(vocab_size=9, d_model=8, n_heads=2, d_ff=8, encoder_layers=2, decoder_layers=2)


@max_examples(10)
@given(configs(), seeds)
def test_a_trace_on_a_device_is_that_of_the_cpu(config, seed):
    """With interventions; the trace itself is on the CPU."""
    model, text = build_source_sensitive(config, seed).double(), texts_of(config, seed)[0]
    at = "encoder.layers.0.self_attention"
    changes = [RemoveHead(at=at, head=0), AverageHead(at="decoder.layers.0.cross_attention", head=0)]
    if len(text) > 1:
        changes.append(RemoveEdge(at=at, query=0, key=1))
    beam = Beam(size=2, **short)
    expected = trace(model, Request(text), search=beam, changes=changes)
    with pretended_device():
        moved = on_device(model)
        traced = trace(moved, Request(text), expected.about.target.ids, search=beam, changes=changes)
        search_tree(PlainStepModel(moved), Request(text), beam)
    for name, loader in traced.loaders.items():
        assert loader().is_cpu, name
        if name != "output.likeliest":  # ties
            torch.testing.assert_close(loader(), expected[name], equal_nan=True, msg=name)
    assert traced.about.shared == expected.about.shared
    assert all(load_weight().is_cpu for load_weight in traced.parameters.values())


def test_the_matrices_of_cross_attention_on_a_device_are_those_of_the_cpu():
    model, texts = build(small_config(), 3), [[5, 6, 2], [7, 2]]
    expected = exchange_matrices(model, texts)
    with pretended_device():
        found = exchange_matrices(on_device(model), texts)
    assert [row.log_probability for row in found.rows] == pytest.approx([row.log_probability for row in expected.rows])


# ---- the choice of a device


@contextlib.contextmanager
def device_called_cuda(monkeypatch):
    """A machine on which the pretended device is found where `cuda` is asked for."""
    monkeypatch.setattr(factory, "chosen_device", lambda name: DEVICE)
    with pretended_device():
        yield


@pytest.mark.parametrize(("engine", "precision"), [("plain", "float32"), ("fast", "bfloat16")])
def test_a_translator_on_a_device(monkeypatch, tmp_path, engine, precision):
    """The engine and the model to look inside are there; ensembles and scores, too."""
    directories, texts = [saved(tmp_path / str(i), i) for i in range(2)], ["The dog sleeps.", "", "The man reads."]
    expected = [load(*some).translate(texts) for some in (directories[:1], directories)]
    options = EngineOptions(engine=engine, precision=precision)
    with device_called_cuda(monkeypatch):
        one = load(directories[0], engine=options, device="cuda")
        found = [one.translate(texts), load(*directories, engine=options, device="cuda").translate(texts)]
        described = describe_engine(one.engine)
        [scored] = one.score(["The dog sleeps."], ["Der Hund."])
        traced = inspect(one).trace("The dog sleeps.")
    assert (described.engine, described.device, described.precision) == ("plain", DEVICE, precision)
    assert one.model.output_projection.weight.device.type == DEVICE
    assert np.isfinite(scored.score)
    assert traced["memory"].is_cpu
    if precision == "float32":
        assert found == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "finds no CUDA GPU: use the device cpu or auto, or install a PyTorch for your GPU"),
        ({"device": "cuda:1"}, "finds no CUDA GPU"),
        ({"device": "mps"}, r"finds no Apple GPU \(mps\)"),
        ({"device": "cuda", "precision": "int8"}, "int8 is the CPU's: use float32, float16 or bfloat16 on a GPU"),
        ({"device": "cuda", "engine": "ctranslate2"}, "CTranslate2 engine runs on the CPU"),
    ],
)
def test_what_a_device_cannot_do_is_refused(options, message):
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is a GPU on this machine")
    with pytest.raises(InputError, match=message):
        load("street", engine=EngineOptions(**options))


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CUDA", "cpu:0", "mps:1", ""])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(SettingsError, match=r"There is no device .*: choose auto, cpu, cuda"):
        load("street", device=name)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.chosen_device("cuda:1") == "cuda:1"
    with pytest.raises(InputError, match="There is no device cuda:2: PyTorch finds 2, counted from cuda:0"):
        devices.chosen_device("cuda:2")


def test_auto_is_a_cuda_gpu_with_its_driver_and_torch_else_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(devices, "has_cuda_driver", lambda: True)
    assert devices.chosen_device("auto") == "cuda"
    for options in ({"precision": "int8"}, {"engine": "ctranslate2"}):
        assert factory.on_chosen_device(EngineOptions(device="auto", **options)).device == "cpu"
    monkeypatch.setattr(devices, "has_cuda_driver", lambda: False)
    assert devices.chosen_device("auto") == "cpu"
    monkeypatch.setattr(devices, "has_cuda_driver", lambda: True)
    monkeypatch.setattr(devices, "is_installed", lambda package: False)
    assert devices.chosen_device("auto") == "cpu"


def test_the_driver_is_found_by_its_files(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "CUDA_DRIVER_FILES", (str(tmp_path / "nvidiactl"),))
    if sys.platform != "win32":
        assert not devices.has_cuda_driver()
        (tmp_path / "nvidiactl").touch()
        assert devices.has_cuda_driver()
    (tmp_path / "System32").mkdir()
    (tmp_path / "System32" / "nvcuda.dll").touch()
    monkeypatch.setenv("SYSTEMROOT", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "win32")
    assert devices.has_cuda_driver()


def test_a_line_on_stderr_says_which_device_answers_if_one_was_asked_for(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU on this machine")
    (tmp_path / "pairs.tsv").write_text("The dog sleeps.\tDer Hund schläft.\n")
    for arguments in (["translate", "street", "The dog sleeps."], ["score", "street", "--source", "pairs.tsv"]):
        plain, auto, unknown = (
            run_command(*arguments, *more, cwd=tmp_path) for more in ([], ["--device", "auto"], ["--device", "gpu"])
        )
        assert plain.stdout == auto.stdout
        assert "Computing" not in plain.stderr
        assert re.match(r"Computing with engine \w+ on cpu in float32(, library [\w-]+)?\.\n", auto.stderr), auto.stderr
        assert unknown.returncode == 1
        assert unknown.stderr.startswith("glassformer: There is no device 'gpu'")
