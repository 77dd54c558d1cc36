"""Search on randomly initialised models: log-probabilities are the model's, whatever the batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.decoding import BatchLimits, Beam, Ensemble, Request, Sample, search
from glassformer.engine.torch_step_model import PlainStepModel, UncachedStepModel, score
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources

MAX_EXAMPLES = 200
short = {"max_length_ratio": 0.5, "max_length_extra": 4}


def lively(config, seed):
    """A random model with weights large enough for clear preferences between tokens."""
    model = build(config, seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def texts_of(config, seed):
    """Sources of different lengths, as lists."""
    return [row[row != config.pad_id].tolist() for row in sources(config, [5, 1, 3], seed)]


def searched(model, texts, settings, **options):
    return search(PlainStepModel(model), [Request(text) for text in texts], settings, **options)


@max_examples(MAX_EXAMPLES)
@given(
    configs(),
    seeds,
    st.sampled_from([Beam(size=3, n_best=2, **short), Beam(size=1, **short), Sample(n_best=2, **short)]),
)
def test_cached_is_uncached(config, seed, settings):
    model = lively(config, seed)
    texts = texts_of(config, seed)
    cached = searched(model, texts, settings)
    uncached = search(UncachedStepModel(model), [Request(text) for text in texts], settings)
    for text, ours, theirs in zip(texts, cached, uncached, strict=True):
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], rel=1e-9, abs=1e-9)
        for one, other in zip(ours, theirs, strict=True):  # a model of two columns has ties, broken by rounding
            scored = score(model, [text, text], [one.tokens, other.tokens], settings.length_penalty)
            assert one.tokens == other.tokens or scored[0].score == pytest.approx(scored[1].score, rel=1e-9)


@max_examples(MAX_EXAMPLES)
@given(configs(), seeds, st.floats(0, 2))
def test_a_search_and_a_score_agree(config, seed, penalty):
    model = lively(config, seed)
    texts = texts_of(config, seed)
    best = [n_best[0] for n_best in searched(model, texts, Beam(size=3, length_penalty=penalty, **short))]
    for positions in (1, 10_000):
        scored = score(model, texts, [h.tokens for h in best], penalty, positions)
        for ours, theirs in zip(best, scored, strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.log_probabilities == pytest.approx(theirs.log_probabilities, rel=1e-9, abs=1e-9)
            assert ours.score == pytest.approx(theirs.score, rel=1e-9, abs=1e-9)


@max_examples(100)
@given(configs(), seeds, st.randoms())
def test_results_do_not_depend_on_batch_composition(config, seed, generator):
    model = lively(config, seed)
    texts = texts_of(config, seed)
    together = searched(model, texts, Beam(size=2, **short))
    order = [0, 1, 2]
    generator.shuffle(order)
    for positions in (1, 10_000):
        shuffled = searched(model, [texts[i] for i in order], Beam(size=2, **short), limits=BatchLimits(positions))
        for i, n_best in enumerate(together):
            for one, other in zip(n_best, shuffled[order.index(i)], strict=True):
                # The native engine is bitwise exact; torch's products are not, and a model of two columns has ties.
                assert one.tokens == other.tokens or one.score == pytest.approx(other.score, rel=1e-9)


@max_examples(50)
@given(configs(), seeds)
def test_an_ensemble_of_one_model_twice_equals_the_model(config, seed):
    model = lively(config, seed)
    requests = [Request(text) for text in texts_of(config, seed)]
    alone = search(PlainStepModel(model), requests, Beam(size=2, **short))
    twice = search(Ensemble([PlainStepModel(model), PlainStepModel(model)]), requests, Beam(size=2, **short))
    for [one], [other] in zip(twice, alone, strict=True):
        assert one.tokens == other.tokens or one.score == pytest.approx(other.score, rel=1e-9)  # a tie


def test_a_target_never_outgrows_the_learned_positions():
    options = {"positions": "learned", "max_positions": 7, "position_offset": 2, "d_model": 4, "n_heads": 1, "d_ff": 4}
    from glassformer.model import ModelConfig

    model = build(ModelConfig(vocab_size=9, encoder_layers=1, decoder_layers=1, **options), dtype=torch.float32)
    for n_best in searched(model, [[3, 4, 2], [5, 3, 4, 6, 2]], Beam(size=3, min_length_ratio=5.0)):
        assert len(n_best[0].tokens) == 5
