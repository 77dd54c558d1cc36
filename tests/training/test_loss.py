"""Training losses: every real token counts once, however the sentences are batched."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.data.padded_batch import make_batch
from glassformer.data.tokenizer import BOS, EOS, PAD
from glassformer.model import ModelConfig
from glassformer.training import summed_loss
from glassformer.training.loss import r_drop_loss
from tests.examples import max_examples
from tests.models import build, configs, seeds

OUR_IDS = {"pad_id": PAD, "bos_id": BOS, "eos_id": EOS}


def pairs(config: ModelConfig, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sentences of different lengths, as in a token store."""
    random = np.random.default_rng(seed)

    def sentence(vocab_size: int) -> np.ndarray:
        return np.append(random.integers(3, vocab_size, random.integers(1, 9)), EOS)

    return [(sentence(config.source_vocab_size), sentence(config.vocab_size)) for _ in range(count)]


@max_examples(60)
@given(configs(**OUR_IDS), seeds, st.floats(0, 0.5))
@torch.no_grad()
def test_it_is_the_sum_over_sentences_alone(config, seed, smoothing):
    """Written out: -(1 - ε) log p(target) - ε mean of log p(all), for each token of each sentence on its own."""
    model = build(config, seed)
    data = pairs(config, 4, seed)
    expected = 0.0
    for source, target in data:
        target_in = torch.tensor([[BOS, *target[:-1]]])
        log_p = model(torch.tensor(source)[None], target_in)[0].log_softmax(-1)
        target_log_p = log_p[torch.arange(len(target)), torch.tensor(target)]
        expected -= ((1 - smoothing) * target_log_p + smoothing * log_p.mean(-1)).sum().item()
    assert summed_loss(model, make_batch(data), smoothing).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("batch_size", [32, 8, 1])
def test_one_batch_of_32_equals_4_of_8_equals_32_of_1(batch_size):
    """transformers PR#34191, OpenNMT-py#2209: gradient accumulation that averages averages. In float64, to 1e-12."""
    config = ModelConfig(vocab_size=30, d_model=16, n_heads=2, d_ff=16, encoder_layers=2, decoder_layers=2, dropout=0.0)
    data = pairs(config, 32, seed=1)
    tokens = make_batch(data).tokens
    assert tokens == sum(len(target) for _, target in data)

    def gradients(size: int) -> list[torch.Tensor]:
        model = build(config, seed=1).train()
        for start in range(0, 32, size):
            (summed_loss(model, make_batch(data[start : start + size]), 0.1) / tokens).backward()
        return [weight.grad for weight in model.parameters()]

    for accumulated, whole in zip(gradients(batch_size), gradients(32), strict=True):
        torch.testing.assert_close(accumulated, whole, rtol=0, atol=1e-12)


def test_the_target_is_shifted_exactly_once():
    """transformers #46901: a double shift trains a model to predict the token after next."""
    batch = make_batch([(np.array([7, EOS]), np.array([4, 5, 6, EOS])), (np.array([8, 9, EOS]), np.array([4, EOS]))])
    assert batch.source.tolist() == [[7, EOS, PAD], [8, 9, EOS]]
    assert batch.target_in.tolist() == [[BOS, 4, 5, 6], [BOS, 4, PAD, PAD]]
    assert batch.target_out.tolist() == [[4, 5, 6, EOS], [4, EOS, PAD, PAD]]
    assert batch.tokens == 6


@max_examples(60)
@given(configs(**OUR_IDS), seeds, st.floats(0, 0.5))
def test_the_gradients_made_with_the_logits_are_autograds(config, seed, smoothing):
    """The fused loss against torch's autograd through the explicit projection: every gradient, in float64."""
    data = make_batch(pairs(config, 5, seed))
    gradients = []
    for with_listener in (False, True):  # a listener on the logits rules out the fused loss
        model = build(config, seed)
        if with_listener:
            model.logits.listeners.append(lambda x: x)
        (summed_loss(model, data, smoothing) * 0.7).backward()
        gradients.append([weight.grad for weight in model.parameters()])
    for fused, explicit in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, explicit, rtol=1e-9, atol=1e-11)


@max_examples(60)
@given(configs(**OUR_IDS), seeds, st.floats(0, 0.5), st.floats(0.1, 10))
def test_r_drop_has_autograds_gradients_and_is_zero_where_passes_agree(config, seed, smoothing, r_drop):
    data = make_batch(pairs(config, 5, seed))
    results = []
    for with_listener in (False, True):
        model = build(config.model_copy(update={"dropout": 0.3}), seed).train()
        if with_listener:
            model.logits.listeners.append(lambda x: x)
        torch.manual_seed(seed)
        loss = r_drop_loss(model, data, smoothing, r_drop)
        (loss * 0.7).backward()
        results.append([loss.detach(), *(weight.grad for weight in model.parameters())])
    for fused, explicit in zip(*results, strict=True):
        torch.testing.assert_close(fused, explicit, rtol=1e-9, atol=1e-11)
    model.eval()
    without_dropout = r_drop_loss(model, data, smoothing, r_drop).item()
    assert without_dropout == pytest.approx(summed_loss(model, data, smoothing).item(), rel=1e-9)


def test_r_drop_is_the_papers_divergence_of_two_passes():
    """½ KL(p‖q) + ½ KL(q‖p) of two passes, token by token, computed with torch's kl_div."""
    config = ModelConfig(vocab_size=30, d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, dropout=0.4)
    model, data = build(config, seed=4).train(), make_batch(pairs(config, 70, seed=4))
    torch.manual_seed(7)
    both = data.twice()
    log_p, log_q = model(both.source, both.target_in).log_softmax(-1)[both.target_mask].chunk(2)
    divergence = sum(
        F.kl_div(one, other, reduction="sum", log_target=True) for one, other in ((log_p, log_q), (log_q, log_p))
    )
    targets = data.target_out[data.target_mask]
    cross_entropy = -sum(log_probs.gather(1, targets[:, None]).sum() for log_probs in (log_p, log_q)) / 2
    torch.manual_seed(7)
    expected = (cross_entropy + 3 / 2 * divergence / 2).item()
    assert r_drop_loss(model, data, 0.0, 3.0).item() == pytest.approx(expected, rel=1e-9)


def test_several_chunks_give_the_same_loss_as_one():
    """With more positions than fit in one chunk."""
    config = ModelConfig(vocab_size=30, d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, dropout=0.0)
    data = pairs(config, 90, seed=3)
    assert make_batch(data).tokens > 300
    model = build(config, seed=3)
    whole = summed_loss(model, make_batch(data), 0.1)
    alone = sum(summed_loss(model, make_batch([pair]), 0.1) for pair in data)
    assert whole.item() == pytest.approx(alone.item(), rel=1e-12)
