"""The native engine agrees with the PyTorch model on random models, and is bitwise independent of batch composition."""

import random

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, search
from glassformer.engine import reduced_precision
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.native_weights import quantise_rows
from glassformer.engine.reduced_precision import to_precision
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import InputError
from glassformer.interop.capabilities import CAPABILITIES
from glassformer.model import ModelConfig, read_model, save_model
from glassformer.model.position_kinds import KINDS, PositionKind
from glassformer.model.positions import BIASES
from tests.decoding.test_search_on_models import lively, texts_of
from tests.examples import cases, max_examples
from tests.interop.memory import measured
from tests.models import configs, seeds
from tests.rounding import explained_by_rounding, float32_error

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")
short = {"max_length_ratio": 0.5, "max_length_extra": 4}
precisions = st.sampled_from(["float32", "float16", "bfloat16", "int8"])


def native(model, precision="float32"):
    return NativeStepModel(model, library(), precision)


def random_walk_logits(step_model, texts, seed):
    """The logits of random steps in which hypotheses are repeated, dropped and reordered, and sentences finish."""
    generator, session = random.Random(seed), step_model.open(3)
    session.join(texts, [9] * len(texts))
    sizes, step_logits = [1] * len(texts), []
    for step in range(6):
        tokens = [
            step_model.bos if step == 0 else generator.randrange(step_model.vocab_size) for _ in range(sum(sizes))
        ]
        tokens = [token if step == 0 or token != step_model.pad else step_model.eos for token in tokens]
        step_logits.append(torch.from_numpy(session.step(tokens, 0, ()).logits.copy()))
        rows, next_sizes, first = [], [], 0
        for size in sizes:
            count = generator.randrange(step < 2, 4)  # no sentence finishes in the first two steps
            kept = [first + generator.randrange(size) for _ in range(count)]
            rows, next_sizes, first = rows + kept, next_sizes + [len(kept)] * bool(kept), first + size
        if not rows:
            break
        session.keep(rows)
        sizes = next_sizes
    return step_logits


@max_examples(300)
@given(configs(), seeds)
@torch.no_grad()
def test_logits_are_those_of_the_plain_model(config, seed):
    model, texts = lively(config, seed), texts_of(config, seed)

    def logits(model):
        return torch.cat(random_walk_logits(PlainStepModel(model), texts, seed))

    exact, error = logits(model), float32_error(logits, model)
    ours = torch.cat(random_walk_logits(native(model.float()), texts, seed))
    assert (ours - exact).abs().max() <= error


# Wide enough that a norm leaves more than signs: otherwise every number is a tie.
wide = configs(d_model=12, n_heads=3, d_head=4)


@max_examples(200)
@given(wide, seeds, st.sampled_from(["float16", "bfloat16", "int8"]))
@torch.no_grad()
def test_reduced_precisions_match_the_reference(config, seed, precision):
    model, texts = lively(config, seed).float(), texts_of(config, seed)
    step_models = (native(model, precision), PlainStepModel(to_precision(model, precision)), PlainStepModel(model))
    ours, reference, float32 = (torch.cat(random_walk_logits(step_model, texts, seed)) for step_model in step_models)
    # A number halfway between two quantisation steps may round either way: logits need not be equal, but must be much
    # closer than float32's.
    assert (ours - reference).abs().mean() <= 1e-4 + 0.5 * (reference - float32).abs().mean()


@max_examples(200)
@given(wide, seeds, st.sampled_from([Beam(size=3, n_best=2, **short), Beam(size=1, **short)]))
@example(
    config=ModelConfig(
        vocab_size=17,
        d_model=12,
        n_heads=3,
        d_ff=16,
        encoder_layers=3,
        decoder_layers=3,
        positions="rotary",
        norm="rms",
        norm_eps=1e-6,
        activation="gelu-tanh",
        gated=True,
        scale_embeddings=True,
        scale_scores=False,
        linear_bias=False,
        output_bias=False,
        tie_output=False,
        pad_id=3,
        bos_id=2,
        eos_id=2,
    ),
    seed=332378,
    settings=Beam(size=3, n_best=2, **short),
)
def test_hypotheses_are_those_of_the_plain_model(config, seed, settings):
    """The example: a near tie early in the search, after which the best scores differ by 0.007."""
    model = lively(config, seed).float()
    requests = [Request(text) for text in texts_of(config, seed)]
    ours, plain = search(native(model), requests, settings), search(PlainStepModel(model), requests, settings)
    for request, one, other in zip(requests, ours, plain, strict=True):
        if one[0].tokens != other[0].tokens and one[0].score != pytest.approx(other[0].score, abs=1e-3):

            def best(model, request=request):
                return search(PlainStepModel(model), [request], settings)[0][0].tokens

            assert explained_by_rounding(best, model, one[0].tokens)


@max_examples(200)
@given(configs(), seeds, precisions, st.randoms(), st.sampled_from([Beam(size=3, **short), Beam.greedy(), Sample()]))
def test_results_are_bitwise_independent_of_batch_composition(config, seed, precision, generator, settings):
    model = lively(config, seed).float()
    texts = [text for more in range(3) for text in texts_of(config, seed + more)]
    alone = [search(native(model, precision), [Request(text)], settings)[0] for text in texts]
    order = list(range(len(texts)))
    generator.shuffle(order)
    step_model = native(model, precision)
    for limits in (
        BatchLimits(sentences=2),
        BatchLimits(sentences=7, workers=2),
        BatchLimits(positions=60),
        BatchLimits(workers=3),
    ):
        together = search(step_model, [Request(texts[i]) for i in order], settings, limits)
        assert [together[order.index(i)] for i in range(len(texts))] == alone  # tokens and log-probabilities, bitwise


class WithoutNativeSearch:
    """The same step model, searched by decoding.beam."""

    def __init__(self, step_model):
        self.step_model = step_model

    def __getattr__(self, name):
        if name == "batch_search":
            raise AttributeError(name)
        return getattr(self.step_model, name)


beams = st.builds(
    Beam,
    size=st.integers(1, 5),
    n_best=st.integers(1, 5),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 1.7]),
    keep_greedy=st.booleans(),
    min_length_ratio=st.sampled_from([0.0, 0.4, 1.0]),
    max_length_ratio=st.just(1.0),
    max_length_extra=st.integers(1, 5),
)


@max_examples(400)
@given(configs(), seeds, beams, st.data())
def test_the_native_search_is_bitwise_the_stepwise_search(config, seed, settings, data):
    step_model = native(lively(config, seed).float())
    words = [token for token in range(config.vocab_size) if token not in (config.pad_id, config.eos_id)]
    some_words = st.lists(st.sampled_from(words), max_size=3)
    requests = [Request(text, prefix=tuple(data.draw(some_words))) for text in texts_of(config, seed)]
    settings = settings.model_copy(update={"suppress": tuple(set(data.draw(some_words)))})
    assert search(step_model, requests, settings) == search(WithoutNativeSearch(step_model), requests, settings)


@max_examples(30)
@given(configs(), seeds)
def test_an_ensemble_of_one_model_twice_equals_the_model(config, seed):
    """Up to ties: the mean of equal probabilities is rounded once more."""
    model = lively(config, seed).float()
    requests = [Request(text) for text in texts_of(config, seed)]
    alone = search(native(model), requests, Beam(size=2, **short))
    twice = search(Ensemble([native(model), native(model)]), requests, Beam(size=2, **short), BatchLimits(workers=2))
    for one, other in zip(alone, twice, strict=True):
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)


def small(**options):
    return ModelConfig(vocab_size=40, d_model=24, n_heads=2, d_ff=20, encoder_layers=1, decoder_layers=1, **options)


def test_a_target_may_be_longer_than_the_initial_position_tables():
    model = lively(small(positions="relative"), 0)
    with torch.no_grad():
        model.output_projection.weight[model.config.eos_id] *= 0
    settings = Beam(size=1, max_length_ratio=0, max_length_extra=1500, length_penalty=0)
    requests = [Request([5, 6, 2]), Request([7, 2])]
    ours, plain = search(native(model), requests, settings), search(PlainStepModel(model), requests, settings)
    assert max(len(n_best[0].tokens) for n_best in ours) > 1100
    assert [n_best[0].tokens[:50] for n_best in ours] == [n_best[0].tokens[:50] for n_best in plain]


class Alibi(nn.Module):
    """A bias without parameters (arXiv:2108.12409)."""

    def __init__(self, config, *_):
        super().__init__()
        self.slopes = 2 ** (-8 * torch.arange(1, config.n_heads + 1) / config.n_heads)

    def forward(self, first, queries, keys):
        distance = (torch.arange(keys) - torch.arange(first, first + queries)[:, None]).abs()
        return -self.slopes[:, None, None] * distance


def alibi_table(config, weight, distance, bidirectional):
    slopes = 2 ** (-8 * np.arange(1, config.n_heads + 1) / config.n_heads)
    return -slopes[:, None] * abs(distance)


def test_a_new_kind_of_positions_needs_no_change_of_the_c_code(monkeypatch):
    monkeypatch.setitem(KINDS, "alibi", PositionKind("ALiBi.", (), lambda _: (), bias="stack", bias_table=alibi_table))
    monkeypatch.setitem(BIASES, "alibi", Alibi)
    config = small().model_copy(update={"positions": "alibi"})
    model, other = lively(config, 0).float(), lively(small(), 0).float()
    with pytest.raises(InputError, match=r"The C engine does not support models with positions = alibi \(only"):
        native(model)
    monkeypatch.setitem(CAPABILITIES["the C engine"], "positions", ("alibi", "sinusoidal"))
    texts = texts_of(config, 0)
    logits = {
        name: random_walk_logits(step_model, texts, 0)
        for name, step_model in (("C", native(model)), ("torch", PlainStepModel(model)), ("sinusoidal", native(other)))
    }
    torch.testing.assert_close(logits["C"], logits["torch"], rtol=0, atol=1e-4)
    assert any((one - two).abs().max() > 0.01 for one, two in zip(logits["C"], logits["sinusoidal"], strict=True))


@pytest.mark.parametrize(("beam", "tokens"), cases((1, 40), (5, 31), more=[(1, 15), (2, 65), (4, 16), (4, 40)]))
def test_memory_stays_within_the_limit_of_positions(beam, tokens):
    shape = {"d_model": 256, "n_heads": 4, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 4}
    model = lively(config := ModelConfig(vocab_size=40, output_bias=True, **shape), 0)
    with torch.no_grad():
        model.output_projection.bias[config.eos_id] = -100  # every target has the maximum length
    step_model, settings = native(model), Beam(size=beam, max_length_ratio=0, max_length_extra=tokens)
    limits = BatchLimits(positions=6000)
    search(step_model, [Request([5, 2])], settings)
    requests = [Request([5, 6, 7, 2])] * (2 * limits.positions // tokens)
    results, bytes_taken = measured(search, step_model, requests, settings, limits)
    assert all(len(n_best[0].tokens) >= tokens for n_best in results)
    keys_and_values = 2 * 4 * config.d_model * config.decoder_layers
    assert bytes_taken <= limits.positions * keys_and_values + 4 * 2**20  # some is for the results


def test_damaged_weights_are_found():
    model = lively(small(), 0)
    with torch.no_grad():
        model.output_projection.weight[7] = torch.nan
    for precision in ("float32", "float16", "bfloat16", "int8"):
        with pytest.raises(InputError, match="not numbers"):
            search(native(model, precision), [Request([5, 2])], Beam())


def test_tokens_of_another_model_are_refused():
    with pytest.raises(InputError, match="from 0 to 39; these go from 2 to 40"):
        search(native(lively(small(), 0)), [Request([40, 2])], Beam())


@max_examples(60)
@given(configs(), seeds, precisions, st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))
def test_a_model_read_from_its_directory_has_the_same_bits(tmp_path_factory, config, seed, precision, dtype):
    """Arrays, without the PyTorch model, are packed as its parameters are."""
    model, texts = lively(config, seed).to(dtype), texts_of(config, seed)
    path = tmp_path_factory.mktemp("models") / "model"
    save_model(model, path)
    ours = random_walk_logits(native(read_model(path), precision), texts, seed)
    theirs = random_walk_logits(native(model, precision), texts, seed)
    assert all(map(torch.equal, ours, theirs))


@given(st.lists(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=3, max_size=3), min_size=1, max_size=9))
def test_rows_are_quantised_with_the_bits_of_torch(rows):
    x = np.array(rows, np.float32)
    steps, scale = quantise_rows(x)
    expected_steps, expected_scale = reduced_precision.quantise_rows(torch.from_numpy(x))
    assert np.array_equal(steps, expected_steps.numpy())
    assert np.array_equal(scale, expected_scale.numpy())
