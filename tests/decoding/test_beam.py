"""Search keeps its promises on random models: what is best is found, and neighbours do not matter."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from glassformer.decoding import Beam, search
from tests.models import build, configs, seeds, sources

small = {"vocab_size": 5, "source_vocab_size": 5, "pad_id": 0, "bos_id": 1, "eos_id": 2}
few = {"max_examples": 60}


def lively(config, seed):
    """Weights large enough that a random model has opinions."""
    model = build(config, seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def log_probability(model, source, tokens):
    target = torch.tensor([[model.config.bos_id, *tokens[:-1]]])
    log_p = model(source, target)[0].log_softmax(-1)
    return log_p[torch.arange(len(tokens)), torch.tensor(tokens)].sum().item()


@tries(**few)
@given(configs(), seeds, st.floats(0, 2))
@torch.no_grad()
def test_scores_are_the_models_own(config, seed, penalty):
    model = lively(config, seed)
    source = sources(config, [5, 1, 3], seed)
    for row, hypotheses in zip(source, search(model, source, Beam(size=3, length_penalty=penalty)), strict=True):
        assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        best = hypotheses[0]
        own = row[row != config.pad_id][None]
        assert best.log_probability == pytest.approx(log_probability(model, own, best.tokens), rel=1e-4, abs=1e-4)
        assert best.score == pytest.approx(best.log_probability / len(best.tokens) ** penalty)
        assert best.tokens[-1] == config.eos_id
        assert len(best.tokens) <= 2 * len(own[0]) + 10


@tries(**few)
@given(configs(), seeds)
@torch.no_grad()
def test_a_beam_of_one_is_greedy(config, seed):
    model = lively(config, seed)
    source = sources(config, [5, 1, 3], seed)
    for row, [hypothesis] in zip(source, search(model, source, Beam.greedy()), strict=True):
        own = row[row != config.pad_id][None]
        written = [config.bos_id]
        while (len(written) == 1 or written[-1] != config.eos_id) and len(written) < 2 * len(own[0]) + 10:
            written.append(model(own, torch.tensor([written]))[0, -1].argmax().item())
        if len(written) == 2 * len(own[0]) + 10:  # there was no room for anything but the end
            written += [] if written[-1] == config.eos_id else [config.eos_id]
        assert hypothesis.tokens == written[1:]


@tries(max_examples=15)
@given(configs(**small, share_embeddings=True), seeds, st.sampled_from([0.0, 0.6, 1.0]))
@torch.no_grad()
def test_a_beam_large_enough_is_exhaustive(config, seed, penalty):
    """Every target of up to three tokens and the end, scored one by one."""
    model = lively(config, seed)
    source = torch.tensor([[3, 2]])
    [hypotheses] = search(model, source, Beam(size=5**3, length_penalty=penalty, longest=0.0, extra=4))
    others = [token for token in range(5) if token != config.eos_id]
    everything = [
        (*middle, config.eos_id) for length in range(4) for middle in itertools.product(others, repeat=length)
    ]
    best = max(log_probability(model, source, list(t)) / len(t) ** penalty for t in everything)
    assert hypotheses[0].score == pytest.approx(best, rel=1e-4)


@tries(**few)
@given(configs(), seeds)
@torch.no_grad()
def test_neighbours_do_not_matter(config, seed):
    model = lively(config, seed)
    source = sources(config, [5, 1, 3], seed)
    together = search(model, source, Beam(size=2))
    for row, hypotheses in zip(source, together, strict=True):
        [alone] = search(model, row[row != config.pad_id][None], Beam(size=2))
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
